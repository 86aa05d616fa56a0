// The engine in a thread of its own. Messages in: {id, call, ask}; out: {id, answer} or {id, error}, {ready} once,
// {failed} if the engine cannot be loaded and {stopped} if it cannot go on.
import "wasm_exec";
import { unpack } from "./brotli.js";

/* global Go, ENGINE, KEPT */

const name = ENGINE.replace(/\.brotli$/, "");

// load returns the module, which is decompressed at the first visit only.
async function load() {
  const cache = await globalThis.caches?.open(KEPT).catch(() => undefined); // a page without TLS has none
  const had = await cache?.match(name);
  if (had) return had;
  const response = await fetch(ENGINE);
  if (!response.ok) throw new Error(`${ENGINE}: ${response.status} ${response.statusText}`);
  const unpacked = new Response(await unpack(response), { headers: { "Content-Type": "application/wasm" } });
  if (cache) keep(cache, unpacked.clone());
  return unpacked;
}

// keep keeps the module for the next visit, and forgets the one of an earlier version.
async function keep(cache, module) {
  try {
    await cache.put(name, module);
    for (const other of await cache.keys()) {
      if (!other.url.endsWith("/" + name)) await cache.delete(other);
    }
    postMessage({ kept: true });
  } catch { // without room for it, the next visit decompresses it again
  }
}

async function start() {
  const go = new Go();
  go.env = { GOGC: "400" }; // less work until the first answer, for some megabytes
  const module = await load();
  const fetched = performance.now();
  const { instance } = await WebAssembly.instantiateStreaming(module, go.importObject);
  const compiled = performance.now();
  go.run(instance); // sets celgate, and goes on for good
  return { fetched, compiled, started: performance.now() };
}

const engine = start();
engine.then((times) => postMessage({ ready: times }), (error) => postMessage({ failed: String(error) }));

onmessage = async ({ data: { id, call, ask } }) => {
  try {
    await engine;
  } catch {
    return; // the page knows
  }
  const began = performance.now();
  let answer;
  try {
    answer = JSON.parse(globalThis.celgate(call, JSON.stringify(ask ?? {})));
  } catch (error) { // nothing can be asked any more
    postMessage({ stopped: String(error) });
    return;
  }
  postMessage(answer.error ? { id, error: answer.error } : { id, answer, took: performance.now() - began });
};
