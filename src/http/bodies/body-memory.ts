import { totalmem } from 'node:os';
import { Fault } from '../../foundation/fault.ts';
import { callerAddress, networkOf } from '../client-address.ts';
import { type BodyShare, type Check, stateOf } from '../request-state.ts';

/** The memory for request bodies, which all requests share. */
export interface BodyMemory {
  /** Returns an empty share of the memory for one request. */
  open(caller: string): BodyShare;
}

interface Share {
  readonly caller: string;
  bytes: number;
  /** Milliseconds that the share may still wait, in all its waits together. */
  patienceMs: number;
  waiting: (PromiseWithResolvers<void> & { readonly bytes: number }) | undefined;
}

// A rejected client sends its body again, which costs more than a wait.
const usualPatienceMs = 10_000;
/** The part of the memory that one caller may take. */
const callerPart = 1 / 4;
/** Additional memory for small bodies. Otherwise, large bodies of a few callers would block them. */
const reservePart = 1 / 8;
const smallBytes = 64 * 1024;

/**
 * Bodies wait when all memory is taken, or when their caller holds a quarter of it. The oldest body never
 * waits: otherwise many half-read bodies would wait for each other. All bodies together hold at most `total`
 * bytes, an eighth more for small ones, and one body of the maximum size.
 *
 * @param total bytes
 * @param patienceMs how long a body waits before its request is rejected
 */
export function createBodyMemory(total: number, patienceMs: number = usualPatienceMs): BodyMemory {
  /** Shares that hold bytes or wait for some, oldest first. */
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

/**
 * Lets request bodies take from the memory until the request is answered.
 *
 * @param stallMs milliseconds in which a client must send a part of the body
 */
export function lendMemory(memory: BodyMemory, trustedProxies: number, stallMs: number): Check {
  return ({ method, req, res }) => {
    if (method === 'GET' || method === 'HEAD') return;
    const share = memory.open(networkOf(callerAddress(req, trustedProxies)));
    stateOf(req).bodyTerms = { memory: share, stallMs };
    // Values parsed from the body take as much memory, and live until the response closes.
    res.once('close', () => share.close());
  };
}

function noRoom(): Fault {
  return new Fault(
    'unavailable',
    'The server has no memory for another request body: try again in a few seconds',
    { phase: 'limit', limit: 'memory for request bodies', retryAfterSeconds: 5 },
  );
}

const machinePart = 1 / 8;
const mostBytes = 256 * 1024 * 1024;

/** Returns the default memory for bodies, in bytes: an eighth of the machine's memory, at most 256 MiB. */
export function usualBodyMemory(): number {
  const limit = process.constrainedMemory();
  const memory = limit > 0 ? Math.min(limit, totalmem()) : totalmem();
  return Math.min(mostBytes, Math.floor(memory * machinePart));
}
