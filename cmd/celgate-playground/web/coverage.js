// Coverage: what the objects reach of the policies, as lines of the editor and as a list.
import { StateEffect, StateField } from "@codemirror/state";
import { Decoration, EditorView } from "@codemirror/view";
import { el } from "./show.js";

const set = StateEffect.define();

// coverageField marks lines of the policies, and keeps the marks at their lines while the text changes.
export const coverageField = StateField.define({
  create: () => Decoration.none,
  update: (lines, change) => change.effects.find((e) => e.is(set))?.value ?? lines.map(change.changes),
  provide: (field) => EditorView.decorations.from(field),
});

const missing = (part) => part.outcomes.filter((o) => !o.count).map((o) => o.name);

// markCoverage marks the lines of expressions: as reached, or as not reached in full.
export function markCoverage(editor, parts) {
  const lines = new Map(); // whether everything in a line is reached
  for (const part of parts) {
    if (part.name.startsWith("binding ") && !part.branch) continue;
    const last = part.endLine || part.line;
    for (let n = part.line; n && n <= last && n <= editor.state.doc.lines; n++) {
      lines.set(n, (lines.get(n) ?? true) && (missing(part).length === 0 || part.line !== n && part.branch));
    }
  }
  const marks = [...lines].sort(([a], [b]) => a - b).map(([n, all]) => Decoration.line({
    class: all ? "cm-reached" : "cm-unreached", attributes: { title: all ? "the objects reach this" : "the objects do not reach all of this: see Coverage" },
  }).range(editor.state.doc.line(n).from));
  editor.dispatch({ effects: set.of(Decoration.set(marks)) });
}

// coverage lists what the objects do not reach.
export function coverage({ seen, total, parts }, place) {
  if (!total) return [];
  const open = parts.filter((part) => missing(part).length);
  return [el("h2", {}, `Coverage: the objects reach ${seen} of ${total} outcomes`),
    open.length ? el("ul", {}, ...open.map((part) => el("li", {}, el("code", {}, part.name), ": never ", missing(part).join(" and never "),
      el("span", { class: "soft" }, ` of ${part.policy} `), place(part) ?? "")))
      : el("p", { class: "soft" }, "Everything in the policies is reached.")];
}
