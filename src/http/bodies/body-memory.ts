import type { IncomingMessage } from 'node:http';
import { totalmem } from 'node:os';
import { Fault } from '../../foundation/fault.ts';
import { callerAddress, networkOf } from '../callers/client-address.ts';
import type { Check } from '../gates/gate.ts';

/** The memory that bodies of requests are read into, shared by all of them. */
export interface BodyMemory {
  /** A share of it for one request, which is empty at first. */
  open(caller: string): BodyShare;
}

export interface BodyShare {
  /**
   * Adds bytes to the share; undefined when there is room now. Otherwise resolves when there is, or
   * rejects with a {@link Fault} (503) when there is none in time.
   */
  add(bytes: number): Promise<void> | undefined;
  /** Gives all of it back. */
  close(): void;
}

interface Share {
  readonly caller: string;
  bytes: number;
  /** Milliseconds that it may still wait, all its waits together. */
  patienceMs: number;
  waiting: (PromiseWithResolvers<void> & { readonly bytes: number }) | undefined;
}

// A client that is refused sends its body again, which costs more than a wait.
const usualPatienceMs = 10_000;
/** Of the whole, for one caller. */
const callerPart = 1 / 4;
/** Additional memory for small bodies. Large bodies of a few callers would otherwise keep them out. */
const reservePart = 1 / 8;
const smallBytes = 64 * 1024;

/**
 * Bodies wait for memory when all of it is taken, or a quarter by one caller. The oldest body never
 * waits, or many that are half read would wait for each other: so all of them together hold `total`
 * bytes, an eighth more for small ones, and one largest body at most.
 *
 * @param total bytes
 * @param patienceMs how long a body waits before its request is refused
 */
export function createBodyMemory(total: number, patienceMs: number = usualPatienceMs): BodyMemory {
  /** Those that hold bytes or wait for some, oldest first. */
  const shares = new Set<Share>();
  const perCaller = new Map<string, number>();
  let used = 0;

  const hasRoom = (share: Share, bytes: number): boolean => {
    const [oldest] = shares;
    if (share === oldest) return true;
    const isSmall = share.bytes + bytes <= smallBytes;
    if (used + bytes > total * (isSmall ? 1 + reservePart : 1)) return false;
    if ((perCaller.get(share.caller) ?? 0) + bytes <= total * callerPart) return true;
    for (const other of shares) if (other.caller === share.caller) return other === share;
    return true;
  };

  const take = (share: Share, bytes: number): void => {
    share.bytes += bytes;
    used += bytes;
    perCaller.set(share.caller, (perCaller.get(share.caller) ?? 0) + bytes);
  };

  const letIn = (): void => {
    for (const share of shares) {
      const { waiting } = share;
      if (!waiting || !hasRoom(share, waiting.bytes)) continue;
      share.waiting = undefined;
      take(share, waiting.bytes);
      waiting.resolve();
    }
  };

  const wait = async (share: Share, bytes: number): Promise<void> => {
    const waiting = { ...Promise.withResolvers<void>(), bytes };
    share.waiting = waiting;
    const began = performance.now();
    const timer = setTimeout(() => waiting.reject(noRoom()), share.patienceMs);
    try {
      await waiting.promise;
    } finally {
      clearTimeout(timer);
      share.patienceMs -= performance.now() - began;
      share.waiting = undefined;
    }
  };

  return {
    open(caller) {
      const share: Share = { caller, bytes: 0, patienceMs, waiting: undefined };
      return {
        add(bytes) {
          shares.add(share);
          if (!hasRoom(share, bytes)) return wait(share, bytes);
          take(share, bytes);
          return undefined;
        },
        close() {
          if (!shares.delete(share)) return;
          share.waiting?.reject(noRoom());
          used -= share.bytes;
          const left = (perCaller.get(caller) ?? 0) - share.bytes;
          if (left > 0) perCaller.set(caller, left);
          else perCaller.delete(caller);
          letIn();
        },
      };
    },
  };
}

/** On what terms the body of a request is read. */
export interface BodyTerms {
  readonly memory: BodyShare;
  /** Milliseconds in which a client must send a part of it. */
  readonly stallMs: number;
}

const terms = new WeakMap<IncomingMessage, BodyTerms>();

/**
 * Lets the bodies of requests take from the memory, until the request is answered.
 *
 * @param stallMs see {@link BodyTerms}
 */
export function lendMemory(memory: BodyMemory, trustedProxies: number, stallMs: number): Check {
  return ({ method, req, res }) => {
    if (method === 'GET' || method === 'HEAD') return;
    const share = memory.open(networkOf(callerAddress(req, trustedProxies)));
    terms.set(req, { memory: share, stallMs });
    // What is made of the body holds as much, and lives as long.
    res.once('close', () => share.close());
  };
}

/** The terms for the request, undefined where none were set. */
export function bodyTermsOf(request: IncomingMessage): BodyTerms | undefined {
  return terms.get(request);
}

function noRoom(): Fault {
  return new Fault(
    'unavailable',
    'The server has no memory for another request body: try again in a few seconds',
    { phase: 'limit', retryAfterSeconds: 5 },
  );
}

const machinePart = 1 / 8;
const mostBytes = 256 * 1024 * 1024;

/** Returns what bodies may hold where nothing is configured: an eighth of the memory, 256 MiB at most. In bytes. */
export function usualBodyMemory(): number {
  const limit = process.constrainedMemory();
  const memory = limit > 0 ? Math.min(limit, totalmem()) : totalmem();
  return Math.min(mostBytes, Math.floor(memory * machinePart));
}
