import { fstatSync, readFileSync, statSync } from 'node:fs';
import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from '../../foundation/telemetry/index.ts';
import { closeInTurn } from '../../foundation/work.ts';
import type { Config } from '../config/index.ts';
import type { Listeners } from './listeners.ts';

const signals = ['SIGTERM', 'SIGHUP', 'SIGINT'] as const;

/** Why a server stops. A replica that lost its lead stops as well, and one whose lead the operator has moved. */
export type StopReason = (typeof signals)[number] | 'lost' | 'moved';

/** What answers the requests of a server. */
interface Running {
  /** Reports the server as not ready for new work. Running work continues, except what a server without its lead cannot finish. */
  drain(why: StopReason): void;
  /** Gives up the lead of the site, if this server has it, at once or when another one waits for it. Never rejects. */
  handOver?(): Promise<void>;
  close(): Promise<void>;
}

/** Resolves with the name of the first signal. */
export async function untilSignal(): Promise<StopReason> {
  const { promise, resolve } = Promise.withResolvers<StopReason>();
  const outlives = isOfNohup();
  if (outlives && process.listenerCount('SIGHUP') === 0) process.on('SIGHUP', () => {});
  const stopping = outlives ? signals.filter(name => name !== 'SIGHUP') : signals;
  for (const name of stopping) process.on(name, resolve);
  try {
    return await promise;
  } finally {
    for (const name of stopping) process.off(name, resolve);
  }
}

const writeOnly = 1;

/**
 * Returns true for a process that `nohup` has started. Node forgets at its start that `nohup` ignores SIGHUP. What stays is the name of the
 * command in `_`, if the shell sets that, as bash and zsh do; and in a terminal the standard input, which GNU's `nohup` replaces by
 * `/dev/null`, open for writing alone.
 */
function isOfNohup(): boolean {
  if (basename(process.env._ ?? '') === 'nohup') return true;
  try {
    if (fstatSync(0).rdev !== statSync('/dev/null').rdev) return false;
    const flags = /^flags:\s+([0-7]+)$/m.exec(readFileSync('/proc/self/fdinfo/0', 'utf8'))?.[1];
    return flags !== undefined && (Number.parseInt(flags, 8) & 3) === writeOnly;
  } catch {
    // Another system, or a standard input that is closed.
    return false;
  }
}

/** Waits for a reason to stop, and stops. Returns the exit code. */
export async function stopOn(
  reason: Promise<StopReason>,
  listeners: Listeners,
  running: Running,
  { stopDelay, drainTime }: Pick<Config, 'stopDelay' | 'drainTime'>,
  log: Logger,
): Promise<number> {
  const why = await reason;
  // From now on, no signal ends the process at once.
  const second = untilSignal();
  const third = second.then(untilSignal);
  running.drain(why);
  listeners.drain();
  if (why !== 'lost') await running.handOver?.();
  const delayMs = why === 'SIGINT' || why === 'lost' ? 0 : stopDelay;
  let isHurried = false;
  if (delayMs > 0) {
    log.info({ ms: delayMs }, 'no longer ready: the server stops after the delay');
    log.flush();
    isHurried = await Promise.race([
      sleep(delayMs, false, { ref: false }),
      second.then(() => true),
    ]);
  }
  log.info('stopping: the server refuses new connections and finishes running transfers');
  await Promise.race([
    listeners.finish(),
    sleep(drainTime, undefined, { ref: false }),
    isHurried ? third : second,
  ]);
  await closeInTurn(
    [
      ['listeners', listeners.close],
      ['server', running.close],
    ],
    log,
  );
  log.info('stopped');
  // Its supervisor starts it again, and it follows.
  return why === 'lost' || why === 'moved' ? 1 : 0;
}

const pauseMs = 1000;

/**
 * Logs uncaught errors, at most one line a second, and lets the process continue, until it is disposed of. Why the
 * process continues: docs/adr/0019-nothing-ends-the-server.md.
 */
export function spreadLastNet(log: Logger): Disposable {
  let loggedAt = Number.NEGATIVE_INFINITY;
  let unlogged = 0;
  const onError = (err: unknown, origin: string): void => {
    const now = performance.now();
    if (now - loggedAt < pauseMs) {
      unlogged += 1;
      return;
    }
    const line = { err, origin, ...(unlogged > 0 ? { unlogged } : {}) };
    log.fatal(line, 'uncaught error: the server continues. Please report it');
    loggedAt = now;
    unlogged = 0;
  };
  process.on('uncaughtException', onError);
  return { [Symbol.dispose]: () => void process.off('uncaughtException', onError) };
}
