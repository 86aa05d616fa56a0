// Asks the engine, a WebAssembly module, about each question in the JSON list on standard input, and prints what it says
// of itself and its answers: {about, answers}. Arguments: the module, and the file of Go that runs one.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

globalThis.require = createRequire(import.meta.url);
const [file, support] = process.argv.slice(2);
globalThis.require(support);
const go = new globalThis.Go();
const { instance } = await WebAssembly.instantiate(readFileSync(file), go.importObject);
go.run(instance); // sets celgate, and goes on for good

const call = (name, ask) => {
  const answer = JSON.parse(globalThis.celgate(name, JSON.stringify(ask)));
  if (answer.error) throw new Error(`${name} ${ask.name ?? ""}: ${answer.error}`);
  return answer;
};
const questions = JSON.parse(readFileSync(0, "utf8"));
const text = JSON.stringify({ about: call("about", {}), answers: questions.map((ask) => call("ask", ask)) });
process.stdout.write(text, () => process.exit(0));
