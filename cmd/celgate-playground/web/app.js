// The page: editors, the request, and the answers of the engine, which is in a worker.
import { EditorState, Transaction } from "@codemirror/state";
import { EditorView, keymap, lineNumbers, highlightActiveLine, highlightActiveLineGutter, drawSelection } from "@codemirror/view";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { HighlightStyle, syntaxHighlighting, bracketMatching, indentUnit } from "@codemirror/language";
import { lintGutter, setDiagnostics, lintKeymap } from "@codemirror/lint";
import { yaml } from "@codemirror/lang-yaml";
import { tags } from "@lezer/highlight";
import { el, explanation, terminal, diff } from "./show.js";
import { pack, unpack } from "./link.js";
import { Engine } from "./engine.js";
import { coverage, coverageField, markCoverage } from "./coverage.js";
import { keepEarlier, keptEarlier, markProofsStale, setUpProofs } from "./prove.js";
import { recall, recallAnswer, remember, rememberAnswer } from "./memory.js";

/* global WORKER, EXAMPLES, FIRST, engine */

const $ = (id) => document.getElementById(id);
const tabs = ["policies", "objects", "state", "old"];
const fileOf = { policies: "policy.yaml", objects: "objects.yaml", state: "state.yaml", old: "old.yaml" };
const form = $("request");

// Editors.

const colours = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--key)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--string)" },
  { tag: [tags.number, tags.bool, tags.keyword, tags.atom], color: "var(--number)" },
  { tag: tags.comment, color: "var(--comment)" },
]);

const editors = {};
for (const tab of tabs) {
  editors[tab] = new EditorView({
    parent: $("pane-" + tab),
    state: EditorState.create({
      extensions: [
        lineNumbers(), lintGutter(), highlightActiveLine(), highlightActiveLineGutter(), drawSelection(), history(),
        bracketMatching(), indentUnit.of("  "), yaml(), syntaxHighlighting(colours), coverageField,
        keymap.of([...defaultKeymap, ...historyKeymap, ...lintKeymap, indentWithTab]),
        EditorView.contentAttributes.of({ "aria-label": $("tab-" + tab).textContent + ", YAML" }),
        EditorView.updateListener.of((update) => { if (update.docChanged) edited(); }),
      ],
    }),
  });
}

function textOf(tab) { return editors[tab].state.doc.toString(); }

// setText replaces a text. Undo brings the earlier one back, if there was one.
function setText(tab, text) {
  const { state } = editors[tab];
  if (state.doc.toString() === text) return;
  editors[tab].dispatch({ changes: { from: 0, to: state.doc.length, insert: text },
    annotations: state.doc.length ? [] : Transaction.addToHistory.of(false) });
}

function choose(tab, focus) {
  for (const other of tabs) {
    const button = $("tab-" + other);
    button.setAttribute("aria-selected", other === tab);
    button.tabIndex = other === tab ? 0 : -1;
    $("pane-" + other).hidden = other !== tab;
  }
  if (focus) $("tab-" + tab).focus();
  editors[tab].requestMeasure();
}

for (const [i, tab] of tabs.entries()) {
  $("tab-" + tab).addEventListener("click", () => choose(tab));
  $("tab-" + tab).addEventListener("keydown", (event) => {
    const to = { ArrowRight: i + 1, ArrowLeft: i - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(tabs[to % tabs.length], true);
  });
}

// rangeOf is a place in the document of an editor.
function rangeOf(doc, place) {
  if (!place.line || place.line > doc.lines) return { from: 0, to: Math.min(1, doc.length) };
  const first = doc.line(place.line), last = doc.line(Math.min(Math.max(place.endLine, place.line), doc.lines));
  const from = Math.min(first.from + place.column, first.to);
  return { from, to: Math.max(Math.min(last.from + place.endColumn, last.to), from) };
}

function goTo(place) {
  const tab = tabs.find((name) => fileOf[name] === place.file);
  if (!tab) return;
  choose(tab);
  const editor = editors[tab], { from, to } = rangeOf(editor.state.doc, place);
  editor.dispatch({ selection: { anchor: from, head: to }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
  editor.focus();
}

// What the editors are marked with: what the answers and the checks say of places.
const marks = { answer: [], check: [] };

function mark() {
  for (const tab of tabs) {
    const doc = editors[tab].state.doc;
    const all = [...marks.answer, ...marks.check].filter((m) => m.file === fileOf[tab]);
    editors[tab].dispatch(setDiagnostics(editors[tab].state, all.map((m) => ({
      ...rangeOf(doc, m), severity: m.severity, message: m.message, source: m.code,
    }))));
    const count = $("tab-" + tab).querySelector(".count");
    const errors = all.filter((m) => m.severity === "error" && !m.said).length;
    const warnings = all.filter((m) => m.severity === "warning" && !m.said).length;
    count.textContent = errors || warnings || "";
    count.className = errors ? "count" : "count warned";
    count.title = errors ? "errors" : "warnings";
  }
}

// The engine, which the page has started.
const decider = new Engine(WORKER, { ...engine, onReady: (times) => { window.celgateTimes = { ...times }; } });

// The request.

function asked() {
  return {
    policies: textOf("policies"), objects: textOf("objects"), state: textOf("state"), old: textOf("old"),
    operation: form.operation.value, user: form.user.value.trim(), minor: form.minor.value,
    groups: form.groups.value.split(",").map((group) => group.trim()).filter(Boolean), dryRun: form.dryRun.checked,
  };
}

function fill(ask) {
  for (const tab of tabs) setText(tab, ask[tab] ?? "");
  form.operation.value = ask.operation ?? "";
  form.user.value = ask.user ?? "";
  form.groups.value = (ask.groups ?? []).join(", ");
  form.dryRun.checked = ask.dryRun ?? false;
  if (ask.minor && [...form.minor.options].some((o) => o.value === ask.minor)) form.minor.value = ask.minor;
}

// One question is on its way at a time. What was typed meanwhile is asked when its answer is there, and checks, which
// take longer, only when nothing more is typed.
let asking = false, again = false, checkTimer = 0, filling = false, answers = 0;

function changed() {
  if (filling) return;
  $("shared").textContent = "";
  markProofsStale();
  clearTimeout(checkTimer);
  if (!asking) {
    ask();
    return;
  }
  again = true;
  if (!decider.ready && !decider.failure) showNothing("Loading the engine …"); // what is shown is about other texts
}

async function ask() {
  asking = true;
  do {
    again = false;
    const began = performance.now();
    const slow = decider.ready ? setTimeout(() => showNothing("Evaluating …"), 2000) : 0;
    try {
      const question = asked(), answer = await decider.call("ask", question);
      answers++;
      show(answer);
      rememberAnswer({ engine: WORKER, question, answer });
      window.celgateAnswered = { took: answer.took, shown: performance.now() - began, at: performance.now() };
    } catch (error) {
      showNothing(error.message);
    }
    clearTimeout(slow);
  } while (again);
  asking = false;
  checkTimer = setTimeout(check, decider.ready ? 250 : 0);
}

async function check() {
  try {
    const checked = await decider.call("check", asked());
    if (asking) return; // the texts have changed
    showChecks(checked.diagnostics);
    showCoverage(checked.coverage);
  } catch (error) {
    showChecks([]);
    showCoverage({ parts: [] });
  }
  document.documentElement.dataset.checked = String(Date.now());
}

// edited is for changes by the reader, which the browser keeps.
function edited() {
  if (filling) return;
  $("example").value = ""; // these texts are no example, which can be chosen again
  changed();
  keep();
}

function keep() {
  if (!remember({ question: asked(), earlier: keptEarlier(), fragment: location.hash })) {
    $("shared").textContent = "these texts are too large for this browser to keep";
  }
}

form.addEventListener("input", edited);
form.addEventListener("submit", (event) => event.preventDefault());

// Answers.

const plural = (n, one, many) => `${n} ${n === 1 ? one : many}`;

function summary(answer) {
  const counts = new Map();
  for (const item of answer.items) counts.set(item.verdict, (counts.get(item.verdict) ?? 0) + 1);
  if (!answer.items.length) return answer.problems.length ? "There is no answer yet: see the problems." : "Write an object, and the policies answer.";
  return plural(answer.items.length, "object", "objects") + ": " + [...counts].map(([word, n]) => `${n} ${word}`).join(", ");
}

function place(at) {
  if (!at.line) return null;
  return el("button", { type: "button", onclick: () => goTo(at) }, `${at.file}:${at.line}`);
}

// open remembers which parts of an answer a reader has opened, by their names.
const open = new Set();

// part makes a part of an answer that a reader can open; its content is made then, as a key makes all answers anew.
function part(name, title, content) {
  const details = el("details", { open: open.has(name) }, el("summary", {}, title));
  const fill = () => { if (details.childElementCount === 1) details.append(...content()); };
  details.addEventListener("toggle", () => {
    if (details.open) open.add(name); else open.delete(name);
    fill();
  });
  if (details.open) fill();
  return details;
}

function note(style, message, ...more) {
  return el("div", { class: "note " + style }, el("p", {}, message), ...more.filter(Boolean));
}

function show(answer) {
  $("summary").textContent = summary(answer);
  $("problems").replaceChildren(
    ...answer.problems.map((p) => note("error", p.message + (p.hint ? " (" + p.hint + ")" : ""), place(p))),
    ...answer.refused.map((r) => note("error", `A server does not store ${r.subject}: ${r.message}`)),
    ...answer.idle.map((name) => note("warning", `${name} is not in force, because no binding names it.`)));
  $("items").replaceChildren(...answer.items.map((item, i) => {
    const explained = item.explanation;
    const [, ...said] = item.text.split("\n");
    return el("article", { class: "item " + item.verdict, "data-verdict": item.verdict, "data-subject": item.subject },
      el("h2", {}, el("span", { class: "verdict " + item.verdict }, item.verdict), item.subject,
        explained?.cost ? el("span", { class: "cost soft", title: "CEL cost units of all policies" }, `cost ${explained.cost.toLocaleString("en")}`) : ""),
      el("div", { class: "body" },
        said.join("").trim() ? el("pre", { tabindex: 0, "aria-label": "What celgate apply says" }, ...terminal(said.join("\n"))) : "",
        ...item.changes.map(diff),
        explained ? part("why " + i, "Why", () => explanation(explained)) : "",
        item.object ? part("object " + i, "The object at the end", () => [el("pre", { tabindex: 0, "aria-label": "The object at the end" }, item.object)]) : "",
        explained ? part("json " + i, "As JSON", () => [el("pre", { tabindex: 0, "aria-label": "As JSON" }, JSON.stringify({ ...explained, events: undefined }, null, 2))]) : ""));
  }));
  marks.answer = [...answer.problems, ...answer.items.flatMap((item) => item.marks.map((m) => ({ ...m, said: true })))];
  mark();
}

// showNothing shows why there is no answer.
function showNothing(why) {
  $("summary").textContent = why;
  $("problems").replaceChildren();
  $("items").replaceChildren();
}

function showChecks(found) {
  marks.check = found.map((d) => ({ ...d, message: d.message + (d.suggestion ? "\n" + d.suggestion : "") }));
  mark();
  $("checks").replaceChildren(...(found.length ? [el("h2", {}, plural(found.length, "finding", "findings") + " in the policies")] : []),
    ...found.map((d) => {
      const [message, ...example] = d.message.split("\n");
      return note(d.severity, `${d.code}: ${message}${d.suggestion ? " (" + d.suggestion + ")" : ""}`,
        place(d), example.length ? el("pre", { tabindex: 0 }, example.join("\n")) : null);
    }));
}

function showCoverage(counted) {
  markCoverage(editors.policies, counted.parts);
  $("coverage").replaceChildren(...coverage(counted, place));
}

// replaceTexts shows other texts as if the reader had written them.
function replaceTexts(texts) {
  filling = true;
  fill(texts);
  filling = false;
  edited();
}

// A request of a proof takes the place of the objects, until the reader wants these back.
let before = null;

setUpProofs(asked, (example) => {
  const now = asked();
  if ($("back").hidden) before = now;
  replaceTexts({ ...example, policies: now.policies, minor: now.minor });
  $("back").hidden = false;
  choose("objects", true);
  $("summary").scrollIntoView({ block: "nearest" });
}, keep);

$("back").addEventListener("click", () => {
  replaceTexts({ ...before, policies: textOf("policies") });
  $("back").hidden = true;
  $("tab-objects").focus();
});

// Examples and links.

$("share").addEventListener("click", async () => {
  const link = location.href.split("#")[0] + "#" + await pack(asked());
  window.history.replaceState(null, "", link);
  keep();
  try {
    await navigator.clipboard.writeText(link);
    $("shared").textContent = "copied";
  } catch {
    $("shared").textContent = "the link is in the address bar";
  }
});

// showEarly shows an answer that is there before the engine is: that of the last visit, or that about an example.
async function showEarly(example) {
  if (decider.ready || decider.failure) return;
  const question = JSON.stringify(asked()), last = recallAnswer(WORKER);
  let answer = last?.answer;
  if (!answer || JSON.stringify(last.question) !== question) {
    if (!example || form.minor.selectedIndex > 0) return; // an answer of the build is about the newest minor
    try {
      answer = await fetch(example.answer).then((response) => response.json());
    } catch {
      return; // the engine answers soon
    }
    if (answers || decider.failure || JSON.stringify(asked()) !== question) return;
  }
  show(answer);
  window.celgateAnswered = { took: 0, shown: 0, at: performance.now() };
}

// prose shows a paragraph of Markdown: code in it, and the texts of links.
function prose(text) {
  return text.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").split(/`([^`]*)`/).map((part, i) => (i % 2 ? el("code", {}, part) : part));
}

async function begin() {
  const { about, examples } = await fetch(EXAMPLES).then((response) => response.json());
  $("version").textContent = "celgate " + about.version;
  form.minor.replaceChildren(...about.minors.map((minor) => el("option", {}, minor)));
  const byName = new Map(examples.map((e) => [e.name, e]));
  $("example").replaceChildren(el("option", { value: "" }, "choose …"),
    ...["dialect", ""].reverse().map((kind) => el("optgroup", { label: kind ? "Extended dialect" : "Kubernetes policies" },
      ...examples.filter((e) => e.name.startsWith("dialect") === Boolean(kind)).map((e) => el("option", { value: e.name }, e.title)))));
  const load = (ask, example) => {
    filling = true;
    fill(ask);
    filling = false;
    keepEarlier(ask.earlier ?? ask.policies ?? "");
    $("back").hidden = true;
    $("about").replaceChildren(...prose(example?.about ?? ""));
    open.clear();
    choose("policies");
    changed();
    showEarly(example);
  };
  $("example").addEventListener("change", () => {
    const example = byName.get($("example").value);
    if (!example) return;
    window.history.replaceState(null, "", "#example=" + example.name);
    load(example, example);
  });
  // A page that is loaded again, or visited again without a link, has the texts of the reader.
  const again = ["reload", "back_forward"].includes(performance.getEntriesByType("navigation")[0]?.type);
  const last = recall(again, location.hash);
  const mine = last && { ...last.question, earlier: last.earlier };
  const follow = async (event) => {
    const fragment = location.hash.slice(1);
    const isLink = /^(v1\.|example=)/.test(fragment);
    if (event && !isLink) return; // a place in the page
    const named = !event && mine ? null : byName.get(fragment.replace(/^example=/, ""));
    const shared = !event && mine ? mine : named ? null : await unpack(fragment);
    const broken = isLink && !named && !shared;
    if (!event || !broken) { // else the texts stay
      const first = named ?? (shared ? null : byName.get(FIRST));
      $("example").value = first ? first.name : "";
      load(shared ?? first, first);
    }
    if (broken) $("shared").textContent = "The link is not complete, or its example does not exist.";
  };
  addEventListener("hashchange", follow);
  await follow();
}

choose("policies");
begin().catch((error) => { $("summary").textContent = "The page cannot begin: " + error.message; });
if ("serviceWorker" in navigator) navigator.serviceWorker.register("offline.js").catch(() => {}); // a page from a file has none
