import { fstatSync, write } from 'node:fs';
import { Socket } from 'node:net';
import type { DestinationStream } from 'pino';

/** Where log lines go. It never throws, never waits, and holds a bounded number of bytes. */
export interface LogDestination extends DestinationStream {
  write(line: string): void;
  /** Starts writing the pending lines. */
  flush(): void;
  /**
   * Resolves when all lines are written, or after `withinMs` ms. Lines that are still pending then
   * are dropped.
   */
  close(withinMs: number): Promise<void>;
}

/**
 * Writes a text. Calls back with an error, or without one once the system has taken the whole
 * text.
 */
type WriteText = (text: string, done: (error?: Error | null) => void) => void;

interface Outlet {
  readonly write: WriteText;
  /** Abandons a write that does not end. */
  destroy(): void;
}

// One system call for each request would cost too much.
const chunkBytes = 4096;
const flushMs = 1000;
// Some seconds of a busy server: as long as a reader of the log may pause.
const maxWaiting = 4 * 1024 * 1024;
const maxWrite = 256 * 1024;
const retryMs = 1000;

/**
 * Opens the destination on a file descriptor: a file, a terminal, a pipe or a socket. Lines that cannot be
 * written, because the disk is full or nobody reads, are dropped; a line says how many, once it can be written.
 */
export function openLogDestination(fd = 1): LogDestination {
  let outlet: Outlet | undefined;
  const waiting: string[] = [];
  let waitingBytes = 0;
  let dropped = 0;
  let isWriting = false;
  let isGone = false;
  let isCut = false;
  let isPausing = false;
  let timer: NodeJS.Timeout | undefined;
  let onIdle: (() => void) | undefined;

  const later = (ms: number) => {
    timer ??= setTimeout(flush, ms).unref();
  };

  /**
   * Returns the next text to write: first the note about dropped lines, then as many lines as fit
   * one write.
   */
  const next = (): { text: string; lines: number } => {
    let bytes = 0;
    let lines = 0;
    for (const line of waiting) {
      if (bytes >= maxWrite) break;
      bytes += line.length;
      lines += 1;
    }
    const taken = waiting.splice(0, lines).join('');
    waitingBytes -= bytes;
    const text = (isCut ? '\n' : '') + (dropped > 0 ? lossLine(dropped) : '') + taken;
    return { text, lines };
  };

  const written = (
    error: NodeJS.ErrnoException | null | undefined,
    lost: number,
    reported: number,
  ) => {
    isWriting = false;
    if (!error) {
      dropped -= reported;
      isCut = false;
    } else {
      dropped += lost;
      isCut ||= 'isCut' in error;
      // No reader is left.
      isGone ||= ['EPIPE', 'EBADF', 'ECONNRESET'].includes(error.code ?? '');
    }
    if (isGone || waiting.length === 0) onIdle?.();
    isPausing = Boolean(error);
    if (isPausing) later(retryMs);
    else flush();
  };

  const flush = () => {
    if (isWriting || isGone || (waiting.length === 0 && dropped === 0)) return;
    clearTimeout(timer);
    timer = undefined;
    isPausing = false;
    isWriting = true;
    const reported = dropped;
    const { text, lines } = next();
    outlet ??= openOutlet(fd);
    outlet.write(text, error => written(error, lines, reported));
  };

  return {
    write(line) {
      if (isGone) return;
      if (waitingBytes + line.length > maxWaiting) {
        dropped += 1;
        return;
      }
      waiting.push(line);
      waitingBytes += line.length;
      if (waitingBytes >= chunkBytes && !isPausing) flush();
      else later(flushMs);
    },

    flush,

    async close(withinMs) {
      clearTimeout(timer);
      timer = undefined;
      if (waiting.length > 0 || isWriting) {
        const { promise, resolve } = Promise.withResolvers<void>();
        const limit = setTimeout(resolve, withinMs);
        onIdle = resolve;
        flush();
        await promise;
        clearTimeout(limit);
      }
      isGone = true;
      outlet?.destroy();
    },
  };
}

function lossLine(count: number): string {
  const time = new Date().toISOString();
  const msg = 'log lines were lost: the log could not be written';
  return `${JSON.stringify({ level: 'warn', time, lines: count, msg })}\n`;
}

/** A pipe or socket without a reader would block a thread for good. Both are written as streams. */
function openOutlet(fd: number): Outlet {
  try {
    const found = fstatSync(fd);
    if (found.isFIFO() || found.isSocket()) return streamOutlet(fd);
  } catch (error) {
    return { write: (_text, done) => setImmediate(done, error as Error), destroy() {} };
  }
  return { write: (text, done) => writeFile(fd, Buffer.from(text), 0, done), destroy() {} };
}

function streamOutlet(fd: number): Outlet {
  const socket = new Socket({ fd, readable: false, writable: true });
  // Each write also reports it.
  socket.on('error', () => {});
  return {
    write: (text, done) => void socket.write(text, done),
    destroy: () => void socket.destroy(),
  };
}

function writeFile(
  fd: number,
  bytes: Buffer,
  from: number,
  done: (error?: Error | null) => void,
): void {
  write(fd, bytes, from, (error, count) => {
    if (error?.code === 'EAGAIN') setTimeout(writeFile, 100, fd, bytes, from, done);
    else if (error) done(from === 0 ? error : Object.assign(error, { isCut: true }));
    else if (from + count < bytes.length) writeFile(fd, bytes, from + count, done);
    else done();
  });
}
