// @ts-check
/**
 * The connection to the kernel, where there is one: questions that only a live program can answer.
 *
 * A question is a custom message `{ask: NUMBER, about: NAME, frame: NUMBER, run: NUMBER, ...body}`, with the frame and the run on show; its answer `{answer: NUMBER, ...body}` or
 * `{answer: NUMBER, error: SENTENCE}`, with buffers. widgets/explorer.py has the other end. A kernel that is gone gives
 * no answer: after a while that is said instead.
 */

/** How long a question may take, in milliseconds, unless it says otherwise. */
const PATIENCE = 30_000;

/** What comes back when nobody answers. */
const NO_ANSWER = "The kernel does not respond: it was restarted or is busy. Run the cell again to reconnect.";

/** @typedef {{body: Record<string, any>, buffers: DataView[]}} Answer */

/** The kernel's side of a widget. */
export class Live {
  /** @param {any} model anywidget's */
  constructor(model) {
    this.model = model;
    this.count = 0;
    /** @type {number | undefined} the frame that the page shows: what is asked is about its call */
    this.frame = undefined;
    this.run = 0; // which run of an edited source that is; 0: none, as it was recorded
    // two views of one model share its messages: each knows its own questions by a name
    this.name = Math.random().toString(36).slice(2);
    /** @type {Map<string, {resolve: (answer: Answer) => void, reject: (error: Error) => void, timer: number}>} */
    this.waiting = new Map();
    this.hear = (/** @type {any} */ body, /** @type {DataView[]} */ buffers) => this.onMessage(body, buffers);
    model.on("msg:custom", this.hear);
  }

  /**
   * Ask the kernel. Fails with one sentence (Error.message) when it cannot say, or says nothing.
   * @param {string} about
   * @param {Record<string, any>} [body]
   * @param {number} [patience] milliseconds
   * @returns {Promise<Answer>}
   */
  ask(about, body = {}, patience = PATIENCE) {
    const ask = `${this.name}:${(this.count += 1)}`;
    return new Promise((resolve, reject) => {
      const timer = window.setTimeout(() => this.onMessage({ answer: ask, error: NO_ANSWER }, []), patience);
      this.waiting.set(ask, { resolve, reject, timer });
      try {
        this.model.send({ frame: this.frame, run: this.run, ...body, ask, about });
      } catch {
        this.onMessage({ answer: ask, error: NO_ANSWER }, []);
      }
    });
  }

  /** @param {any} body @param {DataView[]} buffers */
  onMessage(body, buffers) {
    const waiting = this.waiting.get(body?.answer);
    if (!waiting) return;
    this.waiting.delete(body.answer);
    clearTimeout(waiting.timer);
    if (body.error) waiting.reject(new Error(body.error));
    else waiting.resolve({ body, buffers: buffers ?? [] });
  }

  /** The view is gone: nobody waits any more. */
  close() {
    this.model.off("msg:custom", this.hear);
    for (const { timer } of this.waiting.values()) clearTimeout(timer);
    this.waiting.clear();
  }
}
