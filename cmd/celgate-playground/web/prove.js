// Proofs about all requests. Their engine is a module of its own, loaded for the first proof.
import { el, terminal } from "./show.js";
import { Engine } from "./engine.js";

/* global PROVER */

const $ = (id) => document.getElementById(id);
const form = $("prove");
let prover = null, earlier = "", proving = false;

// keepEarlier keeps policies, with which later ones are compared.
export function keepEarlier(policies) {
  earlier = policies;
}

function choose() {
  const comparing = ["stricter", "equivalent"].includes(form.about.value);
  $("claim").hidden = form.about.value !== "holds";
  $("earlier").hidden = !comparing;
}

// setUpProofs lets the form ask about the texts of the page. tryOut takes the request of a counterexample.
export function setUpProofs(asked, tryOut) {
  form.about.addEventListener("change", choose);
  choose();
  $("keep").addEventListener("click", () => {
    keepEarlier(asked().policies);
    $("proved").replaceChildren(el("p", { class: "soft" }, "Kept: the next comparison is with the policies as they are now."));
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (proving) {
      prover.stop("Stopped.");
      return;
    }
    if (prover?.failure) prover = null;
    prover ??= new Engine(PROVER);
    say(prover.ready ? "Proving …" : "Loading the engine for proofs, once, and proving …");
    setProving(true);
    const question = { ...asked(), about: form.about.value, claim: form.claim.value, before: earlier };
    try {
      show(await prover.call("prove", question), tryOut);
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

function say(text) {
  $("proved").replaceChildren(el("p", { role: "status" }, text));
}

const classOf = { proved: "ok", counterexample: "denied", undecided: "warned", "not found": "warned", vacuous: "warned" };

function show({ problems, refused, proofs, undecided, took }, tryOut) {
  if (problems.length || refused.length) {
    say("Nothing is asked before all texts are valid and a server stores the policies: see above.");
    return;
  }
  const open = undecided ? ` ${undecided} questions are undecided.` : "";
  const none = form.about.value === "vacuity" ? "Every part of the policies has an effect." : "There is nothing to ask: no policy is in force.";
  $("proved").replaceChildren(
    el("p", { role: "status" }, (proofs.length ? `${proofs.length} ${proofs.length === 1 ? "answer" : "answers"} in ${(took / 1000).toFixed(2)} s.`
      : undecided ? "" : none) + open),
    ...proofs.map((proof) => el("article", { class: "item " + classOf[proof.answer], "data-answer": proof.answer },
      el("h3", {}, el("span", { class: "verdict" }, proof.answer), proof.claim),
      el("div", { class: "body" },
        el("details", { open: proof.answer !== "proved" }, el("summary", {}, "What celgate prove says"),
          el("pre", { tabindex: 0 }, ...terminal(proof.text.replace(/^[^\n]*\n/, "")))),
        proof.example ? el("button", { type: "button", onclick: () => tryOut(proof.example) }, "Try this request") : ""))));
}
