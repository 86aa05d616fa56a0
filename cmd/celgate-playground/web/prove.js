// Proofs about all requests. Their engine is a module of its own, loaded for the first proof.
import { el, terminal } from "./show.js";
import { Engine } from "./engine.js";

/* global PROVER */

const $ = (id) => document.getElementById(id);
const form = $("prove");
let prover = null, earlier = "", proving = false;

// keepEarlier keeps policies, with which later ones are compared; keptEarlier returns them.
export function keepEarlier(policies) { earlier = policies; }

export function keptEarlier() { return earlier; }

// markProofsStale says that proofs are about texts that have changed since.
export function markProofsStale() {
  if ($("proved").childElementCount) $("stale").hidden = false;
}

function choose() {
  $("claim").hidden = form.about.value !== "holds";
  $("earlier").hidden = !["stricter", "equivalent"].includes(form.about.value);
}

// setUpProofs lets the form ask about the texts of the page. tryOut takes the request of a counterexample, kept is told
// of policies to compare with.
export function setUpProofs(asked, tryOut, kept) {
  form.about.addEventListener("change", choose);
  choose();
  $("keep").addEventListener("click", () => {
    keepEarlier(asked().policies);
    kept();
    say("Kept: the next comparison is with the policies as they are now.");
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (proving) {
      if (document.activeElement !== form.claim) prover.stop("Stopped."); // the Enter key in the claim does not mean that
      return;
    }
    if (prover?.failure) prover = null;
    prover ??= new Engine(PROVER);
    say(prover.ready ? "Proving …" : "Loading the engine for proofs, once, and proving …");
    setProving(true);
    const texts = asked(), question = { ...texts, about: form.about.value, claim: form.claim.value, before: earlier };
    try {
      show(question, await prover.call("prove", question), tryOut);
      if (JSON.stringify(texts) !== JSON.stringify(asked())) markProofsStale();
    } catch (error) {
      say(error.message.replace(/^There is no answer: /, ""));
    }
    setProving(false);
  });
}

function setProving(on) {
  proving = on;
  $("ask").textContent = on ? "Stop" : "Prove";
}

function say(text, ...proofs) {
  $("stale").hidden = true;
  $("proof").textContent = text;
  $("proved").replaceChildren(...proofs);
}

const classOf = { proved: "ok", counterexample: "denied", undecided: "warned", "not found": "warned", vacuous: "warned" };

const count = (n, one, many) => `${n} ${n === 1 ? one : many}`;

function show({ about }, { proofs, undecided, note, took }, tryOut) {
  const said = [note, proofs.length ? `${count(proofs.length, "answer", "answers")} in ${(took / 1000).toFixed(2)} s.` : "",
    undecided ? `${count(undecided, "question is", "questions are")} undecided.` : ""];
  say(said.filter(Boolean).join(" "), ...proofs.map((proof) => el("article",
    { class: "item " + classOf[proof.answer], "data-answer": proof.answer, "data-about": about },
    el("h3", {}, el("span", { class: "verdict" }, proof.answer), proof.claim),
    el("div", { class: "body" },
      el("details", { open: proof.answer !== "proved" }, el("summary", {}, "What celgate prove says"),
        el("pre", { tabindex: 0, "aria-label": "What celgate prove says" }, ...terminal(proof.text.replace(/^[^\n]*\n/, "")))),
      proof.example ? el("button", { type: "button", onclick: () => tryOut(proof.example) }, "Try this request") : ""))));
}
