// What the browser keeps: the last texts of the reader, of this tab and of all, and the last answer of the engine.
const texts = "celgate.texts", answer = "celgate.answer";

function read(store, key) {
  try {
    return JSON.parse(globalThis[store].getItem(key));
  } catch {
    return null; // a browser that keeps nothing
  }
}

function write(store, key, value) {
  try {
    globalThis[store].setItem(key, JSON.stringify(value));
    return true;
  } catch { // no room, or not at all
    return !globalThis[store];
  }
}

// remember keeps the texts, with the fragment of the page, and reports whether there was room. They are more important
// than the answer.
export function remember(record) {
  const all = () => [write("sessionStorage", texts, record), write("localStorage", texts, record)].every(Boolean);
  if (all()) return true;
  try {
    localStorage.removeItem(answer);
  } catch {
    return true; // not at all
  }
  return all();
}

// recall returns the texts of this tab when its page is loaded again, or the last ones at a visit without a fragment.
export function recall(again, fragment) {
  const own = read("sessionStorage", texts);
  if (again && own?.fragment === fragment) return own;
  return fragment === "" ? own ?? read("localStorage", texts) : null;
}

// rememberAnswer keeps an answer of an engine, if there is room.
export function rememberAnswer(record) {
  write("localStorage", answer, record);
}

// recallAnswer returns the last answer of an engine.
export function recallAnswer(engine) {
  const had = read("localStorage", answer);
  return had?.engine === engine ? had : null;
}
