// The engine in a thread of its own. Messages in: {id, call, ask}; out: {id, answer} or {id, error}, {ready} once and
// {failed} if the engine cannot be loaded.
import "wasm_exec";

/* global Go, ENGINE */

async function start() {
  const go = new Go();
  go.env = { GOGC: "400" }; // less work until the first answer, for some megabytes
  const response = await fetch(ENGINE);
  if (!response.ok) throw new Error(`${ENGINE}: ${response.status} ${response.statusText}`);
  const fetched = performance.now();
  const unpacked = response.body.pipeThrough(new DecompressionStream("gzip"));
  const module = new Response(unpacked, { headers: { "Content-Type": "application/wasm" } });
  const { instance } = await WebAssembly.instantiateStreaming(module, go.importObject);
  const compiled = performance.now();
  go.run(instance); // sets celgate, and goes on for good
  return { fetched, compiled, started: performance.now() };
}

const engine = start();
engine.then((times) => postMessage({ ready: times }), (error) => postMessage({ failed: String(error) }));

onmessage = async ({ data: { id, call, ask } }) => {
  await engine;
  const began = performance.now();
  const answer = JSON.parse(globalThis.celgate(call, JSON.stringify(ask ?? {})));
  postMessage(answer.error ? { id, error: answer.error } : { id, answer, took: performance.now() - began });
};
