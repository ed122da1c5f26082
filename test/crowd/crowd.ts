/** Many clients at once, in another process, so that they do not slow down what is measured. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export interface Crowd extends Disposable {
  /** Resolves when every client has its first bytes. */
  readonly begun: Promise<void>;
  /** Resolves with how many clients got all bytes, and how many did not. */
  readonly done: Promise<{ readonly whole: number; readonly failed: number }>;
}

/** @param bytesPerSecond of each client, 0 for as fast as it can */
export function startCrowd(urls: readonly string[], count: number, bytesPerSecond: number): Crowd {
  const program = fileURLToPath(new URL('clients.ts', import.meta.url));
  const child: ChildProcess = spawn(
    process.execPath,
    [program, urls.join(','), String(count), String(bytesPerSecond)],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  );
  const begun = Promise.withResolvers<void>();
  const done = Promise.withResolvers<{ whole: number; failed: number }>();
  const lines = createInterface({ input: child.stdout ?? process.stdin });
  lines.on('line', line => {
    if (line === 'begun') begun.resolve();
    if (line.startsWith('unserved ')) begun.reject(new Error(`a client is ${line}`));
    const [, whole, failed] = /^done (\d+) (\d+)$/.exec(line) ?? [];
    if (whole !== undefined) done.resolve({ whole: Number(whole), failed: Number(failed) });
  });
  once(child, 'exit').then(() => {
    const ended = new Error('the clients ended early');
    begun.reject(ended);
    done.reject(ended);
  });
  // Whoever does not wait for them has another reason.
  begun.promise.catch(() => {});
  done.promise.catch(() => {});
  return {
    begun: begun.promise,
    done: done.promise,
    [Symbol.dispose]: () => void child.kill('SIGKILL'),
  };
}
