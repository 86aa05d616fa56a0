// Keeps the files of the page, so that it works without a network. The names of files change with their contents: what
// is kept never has to be asked for again, but for the page itself.
const kept = "celgate-" + VERSION;

addEventListener("install", (event) => {
  skipWaiting();
  event.waitUntil(caches.open(kept).then((cache) => cache.addAll(FILES)));
});

addEventListener("activate", (event) => event.waitUntil((async () => {
  for (const name of await caches.keys()) {
    if (name.startsWith("celgate-") && name !== kept) await caches.delete(name);
  }
  await clients.claim();
})()));

addEventListener("fetch", (event) => {
  if (event.request.method !== "GET") return;
  event.respondWith((async () => {
    if (event.request.mode === "navigate") {
      try {
        return await fetch(event.request);
      } catch {
        return (await caches.match("./", { ignoreSearch: true })) ?? Response.error();
      }
    }
    return (await caches.match(event.request)) ?? fetch(event.request);
  })());
});
