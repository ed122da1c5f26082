import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { html } from '../frame/html.ts';
import { progressPart } from './build-progress.ts';
import { statePart, stepsPart } from './build-state.ts';
import { type BuildView, type BuildViewDeps, viewBuild } from './build-view.ts';
import { linesAtOnce, linesPart } from './log-part.ts';
import { recipePart } from './recipe/recipe-part.ts';

/** Streams of server-sent events about running builds. All watchers of a build share one reader and one rendering. */
export interface BuildWatches {
  /**
   * Returns the events of a build until it has ended: `state`, `progress`, `steps` and `recipe` with HTML, `lines` with new lines of
   * its log, `end`. Data is JSON.
   */
  watch(id: string): Readable;
}

export interface BuildWatchesDeps extends BuildViewDeps {
  readonly isStopping: () => boolean;
}

const tickMs = 500;
/** All watched builds together are read at most once in this time: where there are hundreds, each is read less often. */
const readMs = 20;
// Proxies close a connection that is idle for a minute.
const quietMs = 15_000;
// A watcher that does not read so much is disconnected; its browser connects again.
const mostWaiting = 1024 * 1024;
/** A connection takes over one piece at a time. TLS encrypts it, so each has a copy. */
const pieceBytes = 64 * 1024;

interface Watch {
  readonly readers: Set<Readable>;
  view: BuildView | undefined;
  /** HTML by the name of its event. */
  parts: ReadonlyMap<string, string>;
  total: number;
  /** Number of lines by step. */
  counts: ReadonlyMap<number, number>;
  /** What a new watcher gets first; undefined after a change. */
  first: Promise<Buffer> | undefined;
}

/** Creates the streams of one server. A build that nobody watches costs nothing. */
export function createBuildWatches(deps: BuildWatchesDeps): BuildWatches {
  const watches = new Map<string, Watch>();

  /** Sends what has changed. Returns false at the end of the build. */
  const tick = async (id: string, watch: Watch): Promise<boolean> => {
    const view = await viewBuild(id, deps);
    const events: string[] = [];
    const parts = partsOf(view, Date.now());
    for (const [name, text] of parts) {
      if (text !== watch.parts.get(name)) events.push(eventOf(name, text));
    }
    const total = view.lines?.total ?? 0;
    const counts = countsIn(view);
    if (total !== watch.total) {
      const changed = [...counts].filter(([step, count]) => watch.counts.get(step) !== count);
      events.push(await linesEvent(view, Math.min(watch.total, total), changed));
    }
    const isFirst = watch.view === undefined;
    Object.assign(watch, { view, parts, total, counts });
    if (events.length > 0) {
      watch.first = undefined;
      if (!isFirst) send(watch, Buffer.from(events.join('')));
    }
    if (isFirst) for (const reader of watch.readers) void greet(watch, reader);
    return view.finishedAt === undefined;
  };

  /** Waits until a build is read again. Others may begin or end to be watched meanwhile. */
  const pause = async ({ readers }: Watch): Promise<void> => {
    const began = performance.now();
    do await sleep(tickMs, undefined, { ref: false });
    while (
      performance.now() - began < watches.size * readMs &&
      readers.size > 0 &&
      !deps.isStopping()
    );
  };

  const run = async (id: string, watch: Watch): Promise<void> => {
    try {
      let quietSince = performance.now();
      while (watch.readers.size > 0 && !deps.isStopping()) {
        if (!(await tick(id, watch))) {
          await watch.first;
          send(watch, Buffer.from(eventOf('end', '')));
          return;
        }
        if (performance.now() - quietSince > quietMs) {
          quietSince = performance.now();
          send(watch, Buffer.from(':\n\n'));
        }
        await pause(watch);
      }
    } catch {
      // The build was removed, or the disk fails. Browsers connect again and get the failure as a response.
    } finally {
      watches.delete(id);
      for (const reader of watch.readers) reader.push(null);
    }
  };

  return {
    watch(id) {
      let watch = watches.get(id);
      const isNew = !watch;
      watch ??= {
        readers: new Set(),
        view: undefined,
        first: undefined,
        parts: new Map(),
        total: 0,
        counts: new Map(),
      };
      const { readers } = watch;
      const reader = new Readable({
        read() {},
        destroy(error, done) {
          readers.delete(reader);
          done(error);
        },
      });
      readers.add(reader);
      if (isNew) {
        watches.set(id, watch);
        void run(id, watch);
      } else if (watch.view) void greet(watch, reader);
      return reader;
    },
  };
}

/** Returns the parts of a page that change while the build runs, as HTML by the names of their events. */
function partsOf(view: BuildView, now: number): ReadonlyMap<string, string> {
  const html = (part: { toString(): string } | undefined) => part?.toString() ?? '';
  return new Map([
    ['state', html(statePart(view))],
    ['progress', html(progressPart(view, now))],
    ['steps', html(stepsPart(view, now))],
    ['recipe', html(recipePart(view.recipe))],
  ]);
}

/** Sends the present state to a new watcher. */
async function greet(watch: Watch, reader: Readable): Promise<void> {
  const { view, parts } = watch;
  if (!view) return;
  watch.first ??= (async () => {
    const from = Math.max(0, watch.total - linesAtOnce);
    const events = [
      ...[...parts].map(([name, text]) => eventOf(name, text)),
      await linesEvent(view, from, [...watch.counts]),
    ];
    return Buffer.from(events.join(''));
  })();
  try {
    const bytes = await watch.first;
    if (!reader.destroyed && !reader.readableEnded) push(reader, bytes);
  } catch {
    reader.destroy();
  }
}

function send({ readers }: Watch, bytes: Buffer): void {
  for (const reader of readers) {
    if (reader.readableLength > mostWaiting) reader.destroy();
    else push(reader, bytes);
  }
}

function push(reader: Readable, bytes: Buffer): void {
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    reader.push(bytes.subarray(at, at + pieceBytes));
  }
}

/** Returns the number of lines of each step. */
function countsIn({ lines }: BuildView): ReadonlyMap<number, number> {
  const steps = lines?.steps ?? [];
  return new Map(steps.map(({ number }) => [number, lines?.countOf(number) ?? 0]));
}

/**
 * Returns the event for the lines from a position on: the last ones, if they are many.
 *
 * @param counts number of lines of the steps that have changed
 */
async function linesEvent(
  { lines }: BuildView,
  since: number,
  counts: readonly (readonly [number, number])[],
): Promise<string> {
  const total = lines?.total ?? 0;
  const from = Math.max(since, total - linesAtOnce);
  const shown = (await lines?.read(from, total)) ?? [];
  return eventOf('lines', {
    total,
    from,
    counts: Object.fromEntries(counts),
    html: html`${linesPart(shown)}`.toString(),
  });
}

function eventOf(name: string, data: unknown): string {
  return `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
}
