/**
 * Loaded before a server: reports what only the process itself knows, on a socket, and makes hours short: regular work that runs less
 * often, such as purges each hour, runs every second, and caches hold so few entries that they are full after some rounds.
 */
import { rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { isMainThread } from 'node:worker_threads';
import { LRUCache } from 'lru-cache';

/** The variable with the path of the socket. */
export const probeVariable = 'SOAK_PROBE';

/** What a server says of itself after a collection of garbage. */
export interface OwnFigures {
  /** Without compiled code: a function that runs for the first time after hours is compiled then. */
  readonly heap: number;
  readonly code: number;
  readonly external: number;
  readonly arrayBuffers: number;
  /** Timers, sockets and the like that the event loop has, by kind. */
  readonly handles: Readonly<Record<string, number>>;
  /** Of the process itself. */
  readonly listeners: number;
}

const rareMs = 5000;
const hurriedMs = 1000;
const codeSpaces = /^(?:code|trusted)/;
const mostCached = 12;
// Finalizers, and what they end, take turns of the event loop.
const collections = 4;
const pauseMs = 30;

const path = process.env[probeVariable];

if (path !== undefined && isMainThread) {
  hurry();
  shrinkCaches();
  listen(path);
}

function hurry(): void {
  const usual = globalThis.setInterval;
  const hurried = (run: () => void, ms?: number, ...rest: unknown[]) =>
    usual(run, ms !== undefined && ms >= rareMs ? hurriedMs : ms, ...(rest as []));
  globalThis.setInterval = Object.assign(hurried, usual) as typeof setInterval;
}

function shrinkCaches(): void {
  const { set } = LRUCache.prototype;
  LRUCache.prototype.set = function (this: LRUCache<object, object>, ...args) {
    set.apply(this, args);
    while (this.size > mostCached) this.pop();
    return this;
  } as typeof set;
}

function listen(socket: string): void {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  rmSync(socket, { force: true });
  createServer(connection => {
    connection.on('error', () => {});
    void (async () => {
      for (let at = 0; at < collections; at += 1) {
        collect();
        await sleep(pauseMs);
      }
      connection.end(JSON.stringify(ownFigures()));
    })();
  })
    .listen(socket)
    .unref();
}

function ownFigures(): OwnFigures {
  const { external, arrayBuffers } = process.memoryUsage();
  const spaces = Object.groupBy(getHeapSpaceStatistics(), ({ space_name }) =>
    codeSpaces.test(space_name) ? 'code' : 'heap',
  );
  const usedIn = (kind: 'code' | 'heap') =>
    (spaces[kind] ?? []).reduce((sum, { space_used_size }) => sum + space_used_size, 0);
  const handles: Record<string, number> = {};
  for (const kind of process.getActiveResourcesInfo()) handles[kind] = (handles[kind] ?? 0) + 1;
  const names = process.eventNames();
  const listeners = names.reduce((sum, name) => sum + process.listenerCount(name), 0);
  return { heap: usedIn('heap'), code: usedIn('code'), external, arrayBuffers, handles, listeners };
}
