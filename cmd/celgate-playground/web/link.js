// A link holds everything that was asked in its fragment, which browsers do not send to servers: "v1." and the JSON,
// compressed, as base64url.

export async function pack(ask) {
  const stream = new Blob([JSON.stringify(ask)]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return "v1." + btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// unpack returns what a fragment holds; null if it holds nothing of that kind.
export async function unpack(fragment) {
  if (!fragment.startsWith("v1.")) return null;
  try {
    const text = atob(fragment.slice(3).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(text, (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    const ask = JSON.parse(await new Response(stream).text());
    return ask && typeof ask === "object" ? ask : null;
  } catch {
    return null; // a link that was cut off
  }
}
