// @ts-check
/**
 * The shapes of what the explorer is given, and the protocol of its parts. Comments only: nothing of this file reaches
 * the browser. What each field of the data means is said in views/explorer_data.py, by the function that makes it.
 *
 * @typedef {{offset: number, op: string, arg?: string, line?: number, mark?: number, role?: string, origin?: number,
 *   steps?: [string, string][], column?: number, endLine?: number, endColumn?: number, byteColumn?: number,
 *   endByteColumn?: number}} Row  the columns say which piece of the source it stands for; -1 where that is unknown
 * @typedef {{key: string, cause: string, remedy: string}} BreakMark  a graph break at a line
 * @typedef {{name: string, file: string, first: number, lines: string[], rows: Row[],
 *   marks?: Record<string, {graphs: number[], breaks?: BreakMark[]}>, ofLibrary?: number}} Code
 * @typedef {{lines: string[], level: string, place: number[], opening: number[], graphs: number, breaks: number,
 *   recompiles: number, graphNames: string[]}} Story  see views/story.py
 * @typedef {{kind?: string, offset: number, text: string, attempt?: number, code?: number, new?: number,
 *   calls?: number[], keep?: number, push?: number[], set?: [string, number][], made?: string[], nodes?: string[],
 *   guards?: string[], item?: string, rule?: string, line?: number, isSketch?: number}} State  one moment of a frame, as its difference to the moment before;
 *   of a sketch only kind, attempt and nodes are known
 * @typedef {{key: string, op: string, name: string, target: string, args: string, kwargs: string, result: string,
 *   module: string, line: number, inputs?: number[], piece?: number}} GraphNode
 * @typedef {{path: string, title: string, nodes: number[], inner: Group[]}} Group  `nodes` by their number in the graph
 * @typedef {{name: string, backend: string, calls: number, nodes: GraphNode[], group: Group, startClosed: string[],
 *   stayClosed: string[], pieces?: string[], seconds?: number[], runs?: number, artifacts?: Artefact[], skipped?: string, why?: string, fix?: string}} Graph  `skipped`: why its
 *   backend did not get it
 * @typedef {{part: string, title: string, language: string, text: string}} Artefact  a text that a compiler made
 * @typedef {{key: string, index: number, source: string, kind: string, checks: string, expected: string, check: string,
 *   reason: string}} Guard
 * @typedef {{key: string, title: string, report: string, stack: number[], locals: [string, number][]}} Break
 * @typedef {{key: string, name: string, parameters: string[], offset: number, rows: Row[]}} Resume
 * @typedef {{id: number, parent: number | null, name: string, code: number, resumes: number | null, outcome: string,
 *   skipped: string, modified: Row[] | null, python?: string, graphs: Graph[], guards: Guard[], breaks: Break[], resume: Resume[],
 *   states: State[], order: [number, number][], told?: [number, number], real?: FrameReal, title: string, numbers: number[], hidden?: number,
 *   inputs?: Record<string, string>, thrown?: Record<string, (GraphNode & {reads: string[]})[]>,
 *   artifacts?: Artefact[], failed?: FailedGraph,
 *   raised?: {error: string, at: string[]}}} Frame  see views/story.py
 * @typedef {Graph & {at: string}} FailedGraph  a graph that its backend failed to compile, and the key of the operator at which it stopped
 * @typedef {{nodes: Record<string, [number, number][]>, unlike: Record<string, string[]>, names: Record<string, number>,
 *   contents: Record<string, Record<string, [number, number][]>>,
 *   why: string, ran: {moment: string, name: string, value: number}[]}} FrameReal  see views/real_run.py
 * @typedef {{provenance: string, text: string, elements: string, grad: string, why: string}} Real  `provenance` is "real"
 *   (seen in the call itself), "replayed" or "not observed"
 * @typedef {{frame: number, graph: string, run: number, time: string, compared: string}} Run  of a graph
 * @typedef {{frame: number, state: number, where: string, text: string}} Divergence
 * @typedef {{verdict: string, divergences: Divergence[], runs: Run[], values: Real[]}} RealRun
 * @typedef {{id: number, kind: string, text: string, source: string, node: string}} Value
 * @typedef {{name: string, kind: string, value: string}} Named  a slot of the stack or a local at a break
 * @typedef {{sign: string, before: string, after: string}} Differing  a row of two captures side by side
 * @typedef {{frame: number, function: string, outcome: string, entry: number, missed: Record<string, string>,
 *   words: Record<string, string>,
 *   reason: string, recompiled?: number}} CalledFrame  `recompiled` whatever the outcome: the new capture may have been given up
 * @typedef {{number: number, arguments: string, error: string, frames: CalledFrame[]}} Call
 * @typedef {{reports: Record<string, string>, failed: {entry: number, guard: string, found: string, others: number}[],
 *   lines: [string, string, string][], with?: number, difference?: Record<string, Differing[]>}} Miss
 * @typedef {{entries: {entry: number, frame: number, function: string}[], calls: Call[], misses: Record<string, Miss>,
 *   seconds?: Record<string, number>}} Timeline
 * @typedef {{entry: number, frame: number, function: string, asked: string[], price?: string, parts?: string[]}} Entry
 * @typedef {{label: string, frame: number, tried: Record<string, number>,
 *   found: Record<string, {expected: string, actual: string}>}} TriedCall
 * @typedef {{entries: Entry[], calls: TriedCall[]}} Anatomy
 * @typedef {{kind: string, title: string, reason: string, why: string, fix: string, fundamental: number, then: string,
 *   facts: {name: string, text: string}[], places: {place: string, code: string, from: number, to: number}[],
 *   stack: Named[], locals: Named[],
 *   resume: {name: string, where: string, offset: number, code: number, received: {name: string, value: string}[]}[]}} Inspected
 * @typedef {{graph: string, frame: number, lines: string[], picture: string, peak: number,
 *   edges: {left: number, right: number, width: number, top: number, bottom: number},
 *   rows: {name: string, op: string, stage: string, live: string, made: string, inside: string, place: string}[],
 *   kept: {name: string, bytes: string, what: string}[]}} GraphMemory  the memory of a graph, and its picture
 * @typedef {{kind: string, function: string, where: string, cause: string, more?: string, code?: string, times: number, recompiles?: number, seconds: number,
 *   remedy: string, change: string, place: number[], facts: string[][], frames?: number[], compiled?: number[], removes?: number, isExpected?: number,
 *   remedies?: {text: string, where: string, price: string, tried: string}[]}} Cost  what cost something; see views/overview.py
 * @typedef {{function: string, spans: {kind: string, start: number, seconds: number, frame: number, call: number}[],
 *   hits: [number, number, number][]}} TrackData  a function's compilations, and [second, hits, call]
 * @typedef {{file: string, how: string, verdict: string[], level: string, seconds: Record<string, number>, rows: Cost[],
 *   functions: {name: string, where: string, kind: string, verdict: string, operators: number, seconds: number, frame: number,
 *   frames: number[]}[], timeline: {seconds: number, tracks: TrackData[]}, opens: {view: string, place: number[]},
 *   empty?: {why: string, next: string, command: string}}} Overview
 * @typedef {{schema: number, isFirstView?: number, engine: string, title: string, summary: string, explanation: string, story: Story, overview: Overview, cut: string,
 *   codes: Record<string, Code>, help: Record<string, [string, string]>, frames: Frame[],
 *   rules: Record<string, string>, real: RealRun, versions: string, timeline: Timeline, anatomy: Anatomy,
 *   inspection: Record<string, Inspected>, values: Value[],
 *   links: {places: string[][], items: Record<string, number[]>},
 *   memory?: GraphMemory[], stacks?: {depth: number, text: string, code: string, frame: number}[], artifacts?: Artefact[], colours?: Record<string, string[]>,
 *   diagrams?: Record<number, string[]>}} Data
 *
 * @typedef {{stack: number[], locals: Map<string, number>}} StackAndLocals  a function's stack and locals, as numbers of values
 * @typedef {Map<string, string>} Marks  link key -> the classes of its rows: dynx-lit, dynx-chosen, dynx-now
 *
 * @typedef {object} Lit  rows that are lit up by their link keys: a Rows, or a LongList for many
 * @property {(marks: Marks) => void} aim  reads where the row stands that should be in view; changes nothing
 * @property {(marks: Marks) => void} light  marks the rows, and scrolls to the one that was aimed at
 * @property {(wanted: string) => Hit[]} [find]  the rows whose text holds `wanted`, which is in small letters
 * @property {(focused: HTMLElement, by: number) => boolean} [move]  moves the focus from one of its rows to another, where
 *   that one may not stand in the page yet; false where it is none of its rows
 * @property {() => void} [forget]  takes the marks of the last search away
 *
 * @typedef {{key: string, reveal: () => HTMLElement | undefined}} Hit  a row that a search has found
 *
 * @typedef {object} View  a part of the page, built for one explorer; all is optional
 * @property {Lit[]} [lists]  its rows that have link keys; a part may put others in here at any time
 * @property {(frame: Frame) => void} [showFrame]  another frame is on show
 * @property {(state: State, position: number) => void} [showState]  another state of it is on show
 * @property {(key: string) => void} [showView]  another of the five views is open
 * @property {() => void} [showAll]  nothing is folded any more
 * @property {Record<string, () => string>} [copies]  what can be copied from a pane, by its name
 * @property {Record<string, () => void>} [keys]  what it does on a key (as KeyboardEvent.key says it)
 *
 * @typedef {{section: HTMLElement, heading: HTMLElement, tools: HTMLElement, body: HTMLElement}} Place  where a pane stands;
 *   tools are buttons beside its heading
 *
 * @typedef {object} Pane  what panes/index.js lists
 * @property {string} key  one word; the pane's section has the class dynx-KEY
 * @property {string} title  its heading
 * @property {"overview" | "source" | "now"} [place]  that it belongs to a first view; views.js says in which view it stands
 * @property {(data: Data, live: import("./live.js").Live | null) => boolean} [wanted]  whether there is anything to show
 * @property {(explorer: import("./page.js").Explorer, place: Place) => View} build  fills `place.body`
 *
 * @typedef {object} Control  what controls/index.js lists: a control in the head of the page
 * @property {string} key
 * @property {(data: Data, live: import("./live.js").Live | null) => boolean} [wanted]
 * @property {(explorer: import("./page.js").Explorer, place: HTMLElement) => View} build
 */

export {};
