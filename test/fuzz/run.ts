import { apiAsk } from './api-dialect.ts';
import { Connection, type WireResponse } from './connection.ts';
import type { RunningFuzzWorld } from './fuzz-world.ts';
import { judge } from './oracle.ts';
import { platformAsk } from './platform-dialect.ts';
import { Random } from './random.ts';
import { registryAsk } from './registry-dialect.ts';
import { onWire, type WireRequest } from './wire.ts';

export interface FuzzOptions {
  readonly seed: number;
  readonly count: number;
  /** Connections at once. */
  readonly lanes: number;
  readonly onProgress?: (figures: FuzzFigures) => void;
}

export interface FuzzFigures {
  sent: number;
  readonly statuses: Map<number | 'none', number>;
  /** The longest turn of the server's event loop, ms of processor time. */
  longestTurnMs: number;
  /** Resident memory of the server in bytes after a tenth of the requests, and at the end. */
  earlyRss: number;
  lastRss: number;
}

export interface Finding {
  /** Number of the request in its lane, from 0. */
  readonly number: number;
  readonly what: string;
  readonly request: string;
  readonly response: string;
}

export interface FuzzResult {
  readonly figures: FuzzFigures;
  readonly findings: readonly Finding[];
}

const dialects = [apiAsk, platformAsk, registryAsk];
const looksEvery = 200;
const mostFindings = 20;

/**
 * Returns the request with the number in a lane with the seed: each request depends on its own numbers only, and can be
 * repeated.
 */
export function requestOf(world: RunningFuzzWorld, seed: number, number: number): WireRequest {
  const random = new Random(Math.imul(seed, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b));
  const ask = random.pick(dialects)(random, world.about);
  return onWire(random, ask, world.about.host);
}

/** Sends the requests to the server. Ends early when it stops answering, or when there are too many findings. */
export async function fuzz(world: RunningFuzzWorld, options: FuzzOptions): Promise<FuzzResult> {
  const { seed, count, lanes, onProgress } = options;
  const { server, secrets } = world;
  const findings: Finding[] = [];
  const figures: FuzzFigures = {
    sent: 0,
    statuses: new Map(),
    longestTurnMs: 0,
    earlyRss: 0,
    lastRss: 0,
  };
  const look = async () => {
    const { longestMs, rss } = await server.turns();
    figures.longestTurnMs = Math.max(figures.longestTurnMs, longestMs);
    figures.lastRss = rss;
    if (figures.sent >= count / 10 && figures.earlyRss === 0) figures.earlyRss = rss;
    onProgress?.(figures);
  };
  let next = 0;
  const runLane = async () => {
    const connection = new Connection(server.sluice.port);
    try {
      while (next < count && findings.length < mostFindings) {
        const number = next;
        next += 1;
        const request = requestOf(world, seed, number);
        const response = await connection.send(request);
        figures.sent += 1;
        const status = response?.status ?? 'none';
        figures.statuses.set(status, (figures.statuses.get(status) ?? 0) + 1);
        const what = judge(request, response, secrets);
        if (what !== undefined) findings.push(finding(number, what, request, response));
        if (figures.sent % looksEvery === 0) await look();
      }
    } finally {
      connection.close();
    }
  };
  await Promise.all(Array.from({ length: lanes }, runLane));
  await look();
  return { figures, findings };
}

function finding(
  number: number,
  what: string,
  { bytes }: WireRequest,
  response?: WireResponse,
): Finding {
  const shown = response && `${response.status} ${response.body.toString('utf8').slice(0, 500)}`;
  return {
    number,
    what,
    request: bytes.toString('latin1').slice(0, 2000),
    response: shown ?? 'none',
  };
}
