// Decompression of Brotli: by the browser where it can, otherwise by a decoder in WebAssembly, DECODER.
import init, { BrotliDecStream, BrotliStreamResultCode } from "brotli-dec-wasm/web";

/* global DECODER */

const atOnce = 1 << 20; // bytes of output

// unpack returns the stream of what a response has compressed.
export async function unpack(response) {
  try {
    return response.body.pipeThrough(new DecompressionStream("brotli"));
  } catch (error) {
    if (!(error instanceof TypeError)) throw error; // an unknown format
  }
  const decoder = await fetch(DECODER);
  if (!decoder.ok) throw new Error(`${DECODER}: ${decoder.status} ${decoder.statusText}`);
  const module = decoder.body.pipeThrough(new DecompressionStream("gzip"));
  await init({ module_or_path: new Response(module, { headers: { "Content-Type": "application/wasm" } }) });
  const stream = new BrotliDecStream();
  let complete = false;
  return response.body.pipeThrough(new TransformStream({
    transform(chunk, controller) {
      for (let rest = chunk; ;) {
        const step = stream.dec(rest, atOnce);
        if (step.buf.length) controller.enqueue(step.buf);
        rest = rest.subarray(step.input_offset);
        complete = step.code === BrotliStreamResultCode.ResultSuccess;
        if (step.code !== BrotliStreamResultCode.NeedsMoreOutput) return;
      }
    },
    flush() {
      stream.free();
      if (!complete) throw new Error("the download is not complete");
    },
  }));
}
