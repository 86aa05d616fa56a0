// An engine in a worker: questions in, answers out.
export class Engine {
  // An engine starts with its first question, or with a worker that the page has started, and the messages that came early.
  constructor(script, { worker, early = [], onReady = () => {} } = {}) {
    Object.assign(this, { script, onReady, waiting: new Map(), calls: 0, ready: false, failure: "" });
    if (worker) this.attach(worker);
    for (const event of early) this.receive(event);
  }

  attach(worker) {
    this.worker = worker;
    worker.onmessage = (event) => this.receive(event);
    worker.onerror = () => this.fail("its script is missing or broken.");
  }

  // call asks a question. A promise without an answer is rejected with the reason.
  call(name, ask) {
    if (this.failure) return Promise.reject(new Error(this.failure));
    if (!this.worker) this.attach(new Worker(this.script));
    return new Promise((resolve, reject) => {
      const id = ++this.calls;
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, call: name, ask });
    });
  }

  // stop ends all calls without an answer. The next call starts the engine again.
  stop(message) {
    this.worker?.terminate();
    this.worker = null;
    this.ready = false;
    this.refuse(message);
  }

  refuse(message) {
    const all = [...this.waiting.values()];
    this.waiting.clear();
    for (const { reject } of all) reject(new Error(message));
  }

  fail(why) {
    this.failure = "The engine cannot be loaded: " + why;
    this.refuse(this.failure);
  }

  receive({ data }) {
    if (data.ready) {
      this.ready = true;
      this.onReady(data.ready);
      return;
    }
    if (data.kept) {
      document.documentElement.dataset.kept = "true";
      return;
    }
    if (data.failed) {
      this.fail(data.failed);
      return;
    }
    if (data.stopped) {
      this.stop(`The engine has stopped at these texts (${data.stopped}), and starts again.`);
      this.attach(new Worker(this.script));
      return;
    }
    const { resolve, reject } = this.waiting.get(data.id);
    this.waiting.delete(data.id);
    if (data.error) reject(new Error("There is no answer: " + data.error));
    else resolve({ ...data.answer, took: data.took });
  }
}
