// Answers as elements.

// el makes an element; members of attributes that begin with "on" are listeners, true and false are as in HTML.
export function el(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false && value != null) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// terminal makes spans of text with the colours of a terminal.
export function terminal(text) {
  const out = [];
  let style = [];
  for (const piece of text.replace(/^\n+|\s+$/g, "").split(/\x1b\[/)) {
    const at = out.length || text.startsWith("\x1b[") ? piece.match(/^([\d;]*)m/) : null;
    let rest = piece;
    if (at) {
      style = at[1] === "0" || at[1] === "" ? [] : at[1].split(";");
      rest = piece.slice(at[0].length);
    }
    if (rest) out.push(style.length ? el("span", { class: style.map((n) => "a" + n).join(" ") }, rest) : document.createTextNode(rest));
    else out.push(document.createTextNode(""));
  }
  return out;
}

// diff shows what one policy changed.
export function diff(change) {
  const lines = change.hunks.flatMap((hunk) => [
    ...(hunk.path ? [el("span", { class: "soft" }, "@ " + hunk.path + "\n")] : []),
    ...hunk.lines.map((line) => el("span", { class: line.startsWith("+") ? "plus" : "minus" }, line + "\n")),
  ]);
  return el("div", { class: "change" }, el("p", {}, el("span", { class: "mutated" }, "changed"), " by policy " + change.by),
    el("pre", { tabindex: 0, "aria-label": "What changed" }, ...lines));
}

const holds = { Admit: "✓", Deny: "✗", Error: "!", Skip: "–" };

function values(list) {
  return list?.length ? [el("ul", {}, ...list.map((v) => el("li", {}, el("code", {}, v.expression), " = ",
    el("code", { class: v.error ? "error" : "" }, v.value), v.item ? el("span", { class: "soft" }, ` (${v.item})`) : "")))] : [];
}

function expression(x) {
  const bad = x.verdict === "Deny" || x.verdict === "Error";
  return el("li", {}, el("span", { class: "mark " + (bad ? "denied" : "ok") }, holds[x.verdict] ?? x.verdict),
    el("code", {}, x.field), x.message ? ": " + x.message : "", el("span", { class: "soft" }, `  cost ${x.cost.toLocaleString("en")}`),
    ...values(x.values));
}

function compared(c) {
  return el("li", {}, el("span", { class: "mark " + (c.holds ? "ok" : "denied") }, c.holds ? "✓" : "✗"),
    el("code", {}, c.field), " wants ", el("code", {}, c.want), ", the request has ", el("code", {}, c.got));
}

function policy(p) {
  const names = [p.policy, p.binding && "binding " + p.binding, p.param && "param " + p.param].filter(Boolean).join(", ");
  const state = p.matched ? "" : " is not for this request" + (p.reason ? ": " + p.reason : "");
  return el("details", { open: p.matched },
    el("summary", {}, p.second ? "second pass: " : "", names, el("span", { class: "soft" }, state)),
    el("div", { class: "tree" },
      p.error ? el("p", { class: "error" }, p.error) : "",
      p.expressions?.length ? el("ul", {}, ...p.expressions.map(expression)) : "",
      p.compared?.length ? el("details", {}, el("summary", { class: "soft" }, "matching"), el("ul", {}, ...p.compared.map(compared))) : "",
      ...(p.budgets ?? []).map((b) => el("p", { class: "soft" }, `${b.of}: ${b.cost.toLocaleString("en")} of ${b.limit.toLocaleString("en")} cost units`)),
      p.failurePolicy ? el("p", { class: "soft" }, "failurePolicy " + p.failurePolicy) : ""));
}

// explanation shows an item of celgate explain -o json.
export function explanation(item) {
  const out = item.policies.map(policy);
  for (const order of item.otherOrders ?? []) {
    out.push(el("p", { class: "warning" }, `In the order ${order.policies.join(", ")} the result is another one: a server chooses the order at random.`));
  }
  if (!out.length) out.push(el("p", { class: "soft" }, "No policy was compared with this request."));
  return out;
}
