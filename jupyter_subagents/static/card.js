// @ts-check
/**
 * The live card of one `%%agent` output: header, one card a sub-agent, transcript.
 *
 * Text from models is set by `textContent`, except the transcript's `html`, which the kernel made from
 * Markdown through an allow-list. Elements are kept and updated: a button under the pointer is never
 * made anew. Only custom messages go to the kernel.
 *
 * @typedef {Record<string, string>} Strings
 * @typedef {{reported: boolean, tokens: string | null, cost: string | null}} Usage
 * @typedef {{reason: string, seconds: number} | null} Retry
 * @typedef {{
 *   number: number, agent_id: number | null, tool: string, subject: string, detail: string, more: number,
 *   rule: string,
 * }} Question
 * @typedef {{
 *   agent_id: number, type: string, summary: string, status: string, alive: boolean, background: boolean,
 *   since: number, seconds: number | null, limit: number, counts: Record<string, number>,
 *   last_action: string, retry: Retry, model: string, demo: boolean, usage: Usage, directory: string,
 *   files: {path: string, size: string}[], more_files: number, result: string, error: string, partial: boolean,
 *   cause: string, lost?: boolean,
 * }} Agent
 * @typedef {{
 *   now: number, heartbeat: number, label: string, model: string, demo: boolean, state: string, alive: boolean,
 *   confined: boolean | null, note: string,
 *   can_continue: boolean, since: number | null, seconds: number, usage: Usage, retry: Retry, agents: Agent[],
 *   questions: Question[],
 * }} State
 * @typedef {{kind: string, html?: string, text?: string, ok?: boolean | null, agents?: number[]}} Row
 * @typedef {{type: "transcript", from: number, entries: Row[], tail: string, now?: number}} TranscriptMessage
 * @typedef {{
 *   get(name: string): any, send(content: object): void,
 *   on(name: string, callback: (...values: any[]) => void): void,
 *   off(name: string, callback: (...values: any[]) => void): void,
 * }} Model
 */

const STOP_ANSWER_MS = 10_000; // after this time without an effect, Stop may be pressed again
const MISSED_HEARTBEATS = 2.5; // after so many the kernel counts as gone: 150 s

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {string} name class name without its prefix
 * @param {HTMLElement} [parent]
 * @returns {HTMLElementTagNameMap[T]}
 */
function make(tag, name, parent) {
  const element = document.createElement(tag);
  if (name) element.className = `subagents-${name}`;
  parent?.append(element);
  return element;
}

/** Write only what differs, so that a selection survives and screen readers hear changes alone.
 * @param {HTMLElement} element @param {string} text */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** @param {HTMLElement} element @param {boolean} shown */
function show(element, shown) {
  if (element.hidden === shown) element.hidden = !shown;
}

/** @param {string} template @param {Record<string, string | number>} values */
function fill(template, values) {
  return template.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/** @param {number} seconds */
function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60), whole % 60];
  const two = (/** @type {number} */ number) => String(number).padStart(2, "0");
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`;
}

/** @param {Strings} strings @param {{demo: boolean, usage: Usage}} part */
function usageTexts(strings, { demo, usage }) {
  if (!usage.reported) return [];
  const tokens = usage.tokens === null ? strings.tokens_unknown : fill(strings.tokens, { n: usage.tokens });
  return [tokens, demo ? strings.cost_demo : (usage.cost ?? strings.cost_unknown)];
}

/** @param {Strings} strings @param {Record<string, number>} counts */
function countTexts(strings, counts) {
  return Object.entries(counts)
    .filter(([, number]) => number > 0)
    .map(([name, number]) => fill(strings[`${name}_${number === 1 ? "one" : "many"}`], { n: number }))
    .map((text) => text.replaceAll(" ", "\u00a0"));
}

/** Why an agent came to a bad end, in words.
 * @param {Strings} strings @param {Agent} agent */
function whyText(strings, { status, cause, limit }) {
  const words = fill(strings[`cause.${cause}`] ?? "", { timeout_seconds: limit });
  return words && fill(strings.ended_because, { status: strings[`status_${status}`] ?? status, cause: words });
}

/** @param {Strings} strings @param {Retry} retry */
function retryText(strings, retry) {
  return retry ? fill(strings.retrying, retry) : "";
}

/**
 * What is left of a state once the kernel that made it is gone: its agents went with it.
 * @param {State} state @param {number} at when it was last heard of, by the kernel's clock
 * @returns {State}
 */
function withoutKernel(state, at) {
  const since = (/** @type {number} */ start) => Math.max(0, at - start);
  const agents = state.agents.map((agent) => {
    if (!agent.alive) return agent;
    return { ...agent, alive: false, lost: true, status: "interrupted", seconds: since(agent.since), retry: null };
  });
  const seconds = state.seconds + (state.since === null ? 0 : since(state.since));
  const rest = { alive: false, can_continue: false, since: null, retry: null, questions: [] };
  return { ...state, ...rest, state: "kernel_ended", seconds, agents };
}

/** A Stop button that says it was heard until its effect shows. */
class StopButton {
  /** @param {HTMLElement} parent @param {Strings} strings @param {string} title @param {() => void} send */
  constructor(parent, strings, title, send) {
    this.strings = strings;
    this.pressedAt = 0;
    this.button = make("button", "button subagents-stop", parent);
    this.button.type = "button";
    this.button.hidden = true;
    this.button.title = title;
    this.button.setAttribute("aria-label", title);
    this.button.addEventListener("click", () => {
      if (this.pending) return;
      this.pressedAt = Date.now();
      send();
      this.update(true);
    });
  }
  get pending() {
    return Date.now() - this.pressedAt < STOP_ANSWER_MS;
  }
  /** @param {boolean} alive */
  update(alive) {
    if (!alive) {
      this.pressedAt = 0;
      // Focus must not fall to the page's top when the focused button goes.
      if (this.button === this.button.ownerDocument.activeElement) {
        /** @type {HTMLElement | null} */ (this.button.closest("[tabindex='-1']"))?.focus();
      }
    }
    show(this.button, alive);
    setText(this.button, this.pending ? this.strings.stopping : this.strings.stop);
    this.button.setAttribute("aria-disabled", String(this.pending));
  }
}

/** A change of a file, line by line. @param {HTMLElement} parent @param {string} diff */
function drawDiff(parent, diff) {
  for (const text of diff.split("\n")) {
    const kind = { "+": "added", "-": "removed", "@": "place" }[text[0]] ?? "kept";
    make("span", kind, parent).textContent = `${text}\n`;
  }
}

/** A call that waits for consent: who asks, the whole input, and three answers. */
class QuestionRow {
  /** @param {HTMLElement} parent @param {Strings} strings @param {Question} question @param {Model} model */
  constructor(parent, strings, question, model) {
    const { number, agent_id: id, tool, subject, detail, more, rule } = question;
    this.root = make("li", "question", parent);
    this.root.tabIndex = -1;
    const who = id === null ? strings.main_agent : fill(strings.sub_agent, { id });
    make("div", "asks", this.root).textContent = fill(strings.asks, { who, tool });
    make("pre", "subject", this.root).textContent = subject;
    if (detail) drawDiff(make("pre", "subject", this.root), detail);
    if (more) make("div", "rule", this.root).textContent = fill(strings.more_characters, { n: more });
    const foot = make("div", "question-foot", this.root);
    make("span", "rule", foot).textContent = fill(strings.asks_because, { rule });
    const buttons = make("span", "buttons", foot);
    for (const [decision, key] of [["once", "allow_once"], ["run", "allow_run"], ["deny", "deny"]]) {
      const button = make("button", `button subagents-${decision}`, buttons);
      button.type = "button";
      button.textContent = strings[key];
      button.title = strings[`${key}_title`];
      button.addEventListener("click", () => {
        model.send({ type: "answer", number, decision });
        this.root.dataset.answered = decision; // it goes when the kernel has taken the answer
      });
    }
  }
}

/** One sub-agent. */
class AgentCard {
  /** @param {HTMLElement} parent @param {Strings} strings @param {number} id @param {Model} model */
  constructor(parent, strings, id, model) {
    this.strings = strings;
    this.root = make("li", "card", parent);
    this.root.tabIndex = -1;
    this.root.dataset.agentId = String(id);
    this.bar = make("div", "bar-fill", make("div", "bar", this.root));
    const top = make("div", "card-top", this.root);
    make("span", "number", top).textContent = fill(strings.sub_agent, { id });
    this.type = make("span", "type", top);
    this.badge = make("span", "badge", top);
    this.badge.setAttribute("aria-live", "polite");
    const title = fill(strings.stop_agent_title, { id });
    this.stop = new StopButton(top, strings, title, () => model.send({ type: "stop", agent_id: id }));
    this.summary = make("div", "summary", this.root);
    this.meter = make("div", "meter", this.root);
    this.elapsed = make("span", "elapsed", this.meter);
    this.usage = make("span", "usage", this.meter);
    this.counts = make("div", "counts", this.root);
    this.action = make("div", "action", this.root);
    this.why = make("div", "error", this.root);
    this.error = make("div", "error", this.root);
    this.result = make("div", "result", this.root);
    this.result.hidden = true;
    this.more = make("button", "more", this.root);
    this.more.type = "button";
    this.more.hidden = true;
    this.more.addEventListener("click", () => this.toggle());
    this.files = make("div", "files", this.root);
    this.filesKey = "";
  }
  /** @param {Agent} agent @param {number} now */
  update(agent, now) {
    const { strings } = this;
    this.agent = agent;
    this.root.dataset.status = agent.status;
    this.root.setAttribute("aria-label", `${fill(strings.sub_agent, { id: agent.agent_id })}: ${agent.summary}`);
    setText(this.type, agent.type);
    setText(this.badge, strings[`status_${agent.status}`] ?? agent.status);
    this.stop.update(agent.alive);
    setText(this.summary, agent.summary);
    setText(this.usage, usageTexts(strings, agent).join(" · "));
    this.usage.title = agent.model;
    setText(this.counts, countTexts(strings, agent.counts).join(" · "));
    setText(this.action, agent.alive ? retryText(strings, agent.retry) || agent.last_action : "");
    this.action.title = agent.last_action;
    setText(this.why, whyText(strings, agent));
    show(this.why, this.why.textContent !== "");
    setText(this.error, agent.error);
    show(this.error, agent.error !== "");
    this.updateFiles(agent);
    if (this.result.textContent !== agent.result) {
      this.result.textContent = agent.result;
      this.measure(); // asks for the layout, so only where the text is new
    }
    this.tick(now);
  }
  /** @param {number} now */
  tick(now) {
    if (!this.agent) return;
    const { since, seconds, limit, alive } = this.agent;
    const elapsed = seconds ?? Math.max(0, now - since);
    const values = { elapsed: duration(elapsed), limit: duration(limit) };
    setText(this.elapsed, alive ? fill(this.strings.elapsed_of_limit, values) : values.elapsed);
    const share = alive ? Math.min(1, elapsed / limit) : 1;
    this.bar.style.transform = `scaleX(${share.toFixed(4)})`;
    this.stop.update(alive);
  }
  toggle() {
    this.result.classList.toggle("subagents-open");
    this.measure();
  }
  /** Offer "show more" only where something is cut off. */
  measure() {
    show(this.result, this.result.textContent !== "");
    const open = this.result.classList.contains("subagents-open");
    const cut = this.result.scrollHeight > this.result.clientHeight + 1;
    show(this.more, !this.result.hidden && (open || cut));
    setText(this.more, open ? this.strings.show_less : this.strings.show_more);
    this.more.setAttribute("aria-expanded", String(open));
  }
  /** @param {Agent} agent */
  updateFiles(agent) {
    const known = !agent.alive && !agent.lost; // nobody is left who could list a lost one's files
    show(this.files, known);
    const key = JSON.stringify([agent.files, agent.more_files, agent.partial, agent.directory]);
    if (!known || key === this.filesKey) return;
    this.filesKey = key;
    const { strings } = this;
    const heading = agent.files.length ? strings.deliverables_in : strings.no_deliverables;
    this.files.replaceChildren();
    make("div", "files-heading", this.files).textContent = fill(heading, { directory: agent.directory });
    const list = make("ul", "file-list", this.files);
    for (const { path, size } of agent.files) {
      const item = make("li", "file", list);
      make("span", "file-name", item).textContent = path;
      make("span", "file-size", item).textContent = size;
    }
    if (agent.more_files) make("li", "file", list).textContent = fill(strings.more_files, { n: agent.more_files });
    if (agent.partial) make("div", "partial", this.files).textContent = strings.partial;
  }
}

/** The conversation's line on top. */
class Header {
  /** @param {HTMLElement} parent @param {Strings} strings @param {Model} model */
  constructor(parent, strings, model) {
    this.strings = strings;
    this.root = make("div", "header", parent);
    this.root.tabIndex = -1;
    this.facts = make("div", "facts", this.root);
    this.badge = make("span", "badge", this.facts);
    this.badge.setAttribute("aria-live", "polite");
    this.label = make("span", "label", this.facts);
    this.model = make("span", "model", this.facts);
    this.demo = make("span", "demo", this.facts);
    this.demo.textContent = strings.demo_tag;
    this.sandbox = make("span", "sandbox", this.facts);
    this.elapsed = make("span", "elapsed", this.facts);
    this.usage = make("span", "usage", this.facts);
    const buttons = make("div", "buttons", this.root);
    this.next = make("button", "button subagents-continue", buttons);
    this.next.type = "button";
    this.next.textContent = strings.continue;
    this.next.title = strings.continue_title;
    this.next.addEventListener("click", () => model.send({ type: "continue" }));
    this.stop = new StopButton(buttons, strings, strings.stop_all_title, () => model.send({ type: "stop_all" }));
    this.note = make("div", "retry", parent);
    this.note.hidden = true;
    this.retry = make("div", "retry", parent);
    // Until the first state there is nothing to say and nothing to press.
    for (const element of [this.facts, this.next, this.retry]) element.hidden = true;
  }
  /** @param {State} state @param {number} now */
  update(state, now) {
    const { strings } = this;
    this.state = state;
    this.root.dataset.status = state.state;
    show(this.facts, true);
    setText(this.badge, strings[`state_${state.state}`] ?? state.state);
    setText(this.label, fill(strings.conversation, { label: state.label }));
    setText(this.model, state.model || strings.model_unknown);
    show(this.demo, state.demo);
    show(this.sandbox, state.confined === false); // said where it is missing: that is what must be known
    setText(this.sandbox, strings.no_sandbox);
    this.sandbox.title = strings.no_sandbox_title;
    setText(this.note, state.note);
    show(this.note, state.note !== "");
    setText(this.usage, usageTexts(strings, state).join(" · "));
    show(this.next, state.can_continue);
    setText(this.retry, retryText(strings, state.retry));
    show(this.retry, state.retry !== null);
    this.tick(now);
  }
  /** @param {number} now */
  tick(now) {
    if (!this.state) return;
    const { since, seconds, alive } = this.state;
    setText(this.elapsed, duration(seconds + (since === null ? 0 : Math.max(0, now - since))));
    this.stop.update(alive);
  }
}

/** The main agent's words and calls. Rows before `from` stay as they are. */
class Transcript {
  /** @param {HTMLElement} parent @param {Strings} strings @param {() => void} askAgain */
  constructor(parent, strings, askAgain) {
    this.strings = strings;
    this.askAgain = askAgain;
    this.root = make("div", "transcript", parent);
    this.root.hidden = true;
    this.tail = make("div", "tail", this.root);
    /** @type {HTMLElement[]} */
    this.rows = [];
  }
  /** @param {TranscriptMessage} message */
  receive({ from, entries, tail }) {
    if (from > this.rows.length) {
      this.askAgain(); // a message was lost, for instance while the page was being loaded
      return;
    }
    for (const row of this.rows.splice(from)) row.remove();
    for (const entry of entries) {
      const row = this.row(entry);
      this.rows.push(row);
      this.tail.before(row);
    }
    setText(this.tail, tail);
    this.tail.classList.toggle("subagents-code", /^ *(```|~~~)/.test(tail));
    show(this.tail, tail.trim() !== "");
    show(this.root, this.rows.length > 0 || tail.trim() !== "");
  }
  /** @param {Row} entry */
  row(entry) {
    const row = make("div", `row subagents-row-${entry.kind}`);
    if (entry.kind === "text") row.innerHTML = entry.html ?? ""; // made by the kernel's allow-list
    else row.textContent = this.words(entry);
    if (entry.kind === "tool") row.dataset.ok = String(entry.ok);
    return row;
  }
  /** @param {Row} entry */
  words({ kind, text = "", ok, agents = [] }) {
    const { strings } = this;
    if (kind === "notice" && agents.length) {
      const template = agents.length === 1 ? strings.notice_ended_one : strings.notice_ended_many;
      return fill(template, { ids: agents.join(", ") });
    }
    if (kind === "notice" || kind === "prompt") return fill(strings[kind], { text });
    if (kind === "interrupted") return strings.interrupted;
    return kind === "tool" && ok === false ? `${text} (${strings.tool_failed})` : text;
  }
}

/** @param {{model: Model, el: HTMLElement}} context */
function render({ model, el }) {
  /** @type {Strings} */
  const strings = model.get("strings");
  const root = make("section", "root", el);
  const header = new Header(root, strings, model);
  const asked = make("ol", "questions", root);
  asked.hidden = true;
  /** @type {Map<number, QuestionRow>} */
  const questions = new Map();
  const list = make("ol", "agents", root);
  list.hidden = true;
  const transcript = new Transcript(root, strings, () => model.send({ type: "ready" }));
  /** @type {Map<number, AgentCard>} */
  const cards = new Map();
  let skew = 0; // the kernel's clock minus this browser's
  const now = () => Date.now() / 1000 + skew;

  let heardAt = Date.now(); // when the kernel last said something
  let disconnected = false;

  const gone = (/** @type {Partial<State>} */ { alive, heartbeat = 60 }) =>
    disconnected || (alive === true && Date.now() - heardAt > heartbeat * 1000 * MISSED_HEARTBEATS);
  const draw = () => {
    /** @type {Partial<State>} */
    const state = model.get("state");
    if (!state.agents) return;
    const known = /** @type {State} */ (state);
    const lost = known.alive && gone(known);
    const shown = lost ? withoutKernel(known, heardAt / 1000 + skew) : known;
    root.setAttribute("aria-label", fill(strings.conversation, { label: shown.label }));
    header.update(shown, now());
    drawQuestions(asked, questions, shown.questions ?? [], (question) => new QuestionRow(asked, strings, question, model));
    drawCards(list, cards, shown.agents, now(), (id) => new AgentCard(list, strings, id, model));
  };
  /** @param {unknown} time the kernel's clock, where what came tells it */
  const heard = (time) => {
    heardAt = Date.now();
    disconnected = false;
    if (typeof time === "number") skew = time - heardAt / 1000;
    draw();
  };
  const changed = () => heard(model.get("state").now);
  const received = (/** @type {any} */ message) => {
    if (message?.type !== "transcript") return;
    transcript.receive(message);
    heard(message.now);
  };
  const cutOff = () => {
    // The kernel restarts: the front end has let go of its comms.
    disconnected = true;
    draw();
  };
  const tick = () => {
    if (gone(model.get("state"))) {
      draw();
      return;
    }
    header.tick(now());
    for (const card of cards.values()) card.tick(now());
  };

  model.on("change:state", changed);
  model.on("msg:custom", received);
  model.on("comm_live_update", cutOff);
  const timer = setInterval(tick, 1000);
  const resized = new ResizeObserver(() => cards.forEach((card) => card.measure()));
  resized.observe(root);
  draw();
  model.send({ type: "ready" });
  return () => {
    clearInterval(timer);
    resized.disconnect();
    model.off("change:state", changed);
    model.off("msg:custom", received);
    model.off("comm_live_update", cutOff);
  };
}

/**
 * @param {HTMLElement} list @param {Map<number, QuestionRow>} rows @param {Question[]} questions
 * @param {(question: Question) => QuestionRow} create
 */
function drawQuestions(list, rows, questions, create) {
  const numbers = new Set(questions.map(({ number }) => number));
  for (const [number, row] of rows) {
    if (!numbers.has(number)) {
      row.root.remove();
      rows.delete(number);
    }
  }
  for (const question of questions) if (!rows.has(question.number)) rows.set(question.number, create(question));
  show(list, questions.length > 0);
}

/**
 * @param {HTMLElement} list @param {Map<number, AgentCard>} cards @param {Agent[]} agents
 * @param {number} now @param {(id: number) => AgentCard} create
 */
function drawCards(list, cards, agents, now, create) {
  show(list, agents.length > 0);
  const ids = new Set(agents.map((agent) => agent.agent_id));
  for (const [id, card] of cards) {
    if (!ids.has(id)) {
      card.root.remove();
      cards.delete(id);
    }
  }
  agents.forEach((agent, index) => {
    const card = cards.get(agent.agent_id) ?? create(agent.agent_id);
    cards.set(agent.agent_id, card);
    // Moving an element loses its focus and hover: only one that is new or out of order is placed.
    if (list.children[index] !== card.root) list.insertBefore(card.root, list.children[index] ?? null);
    card.update(agent, now);
  });
}

export default { render };
