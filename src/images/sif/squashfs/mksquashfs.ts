import { spawn } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Writable } from 'node:stream';
import { Fault } from '../../../foundation/fault.ts';
import type { Compression } from './compression.ts';

const install = 'install the Debian package squashfs-tools, version 4.5 or later';
/** Kept of what it prints, in characters, and how many lines of it are shown when it fails. */
const keptOutput = 8 * 1024;
const shownLines = 5;

/** A running mksquashfs that makes a file system of a tar file. */
export interface Squasher {
  /** Takes more of the tar file; resolves when it wants more. Throws a {@link Fault} when it failed. */
  write(parts: readonly Buffer[]): Promise<void>;
  /** Waits for the file system, when all of the tar file is written. Throws a {@link Fault} when it failed. */
  finish(): Promise<void>;
  /** Ends it where it still runs; resolves when it is gone. */
  stop(): Promise<void>;
}

export interface SquashOptions {
  /** Name or path of mksquashfs. */
  readonly command: string;
  /** Where it runs, so that no other path is in its messages. */
  readonly directory: string;
  /** Name of the file to make there. */
  readonly output: string;
  /** Bytes to leave free before the file system. */
  readonly offset: number;
  /** Permissions of the root directory. */
  readonly rootMode: number;
  /** Seconds since the epoch: the time of the file system, and the latest that a file can have. */
  readonly time: number;
  /** Threads that compress; as many as there are processors unless told. */
  readonly processors?: number | undefined;
  /** True where the tar file has extended attributes. */
  readonly hasAttributes: boolean;
  readonly compression: Compression;
  /** False where the content of files hardly gets smaller by it. */
  readonly isCompressed: boolean;
  /** Milliseconds that it may take nothing and write nothing, before it is ended. */
  readonly stallMs: number;
}

/** It only prints some lines. */
const versionMs = 30_000;

/** Throws a {@link Fault} of kind `not-provided` unless there is a mksquashfs that reads tar files. */
export async function requireMksquashfs(command: string): Promise<void> {
  const child = spawn(command, ['-version'], { stdio: ['ignore', 'pipe', 'ignore'] });
  let isOverdue = false;
  const timer = setTimeout(() => {
    isOverdue = true;
    child.kill('SIGKILL');
    // Another process may still hold the other end.
    child.stdout?.destroy();
  }, versionMs);
  let text = '';
  const ended = new Promise<void>((resolve, reject) => {
    child.once('close', () => resolve());
    child.once('error', cause => reject(notProvided('which is not here', cause)));
  });
  // Without free descriptors it has no streams, and reports the reason a moment later.
  child.stdout?.setEncoding('latin1').on('data', part => {
    text += part;
  });
  try {
    await ended;
  } finally {
    clearTimeout(timer);
  }
  if (isOverdue) throw notProvided('which does not answer');
  const [, major = 0, minor = 0] = /mksquashfs version (\d+)\.(\d+)/.exec(text) ?? [];
  const canReadTar = Number(major) > 4 || (Number(major) === 4 && Number(minor) >= 5);
  if (!canReadTar) throw notProvided('and this one cannot read tar files');
}

/**
 * Starts mksquashfs. The file system depends on the tar file and the options only, not on the machine.
 * All files belong to root, as in an image that an ordinary user builds with Apptainer.
 */
export function startMksquashfs(options: SquashOptions): Squasher {
  const child = spawn(options.command, argumentsOf(options), {
    cwd: options.directory,
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, LC_ALL: 'C', SOURCE_DATE_EPOCH: String(options.time) },
  });
  let output = '';
  let isStalled = false;
  const ended = new Promise<Fault | undefined>(resolve => {
    child.once('error', cause => resolve(notProvided('which could not be started', cause)));
    child.once('close', (code, signal) => {
      if (isStalled) resolve(stalled(options.stallMs));
      else resolve(code === 0 ? undefined : failure(signal ?? `exit code ${code}`, output));
    });
  });
  // Without free descriptors it has no streams.
  if (!child.stdin) throw notProvided('which could not be started');
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('latin1').on('data', part => {
      output = (output + part).slice(-keptOutput);
    });
  }
  const { stdin } = child;
  // That it is gone is told by how it ended.
  stdin.on('error', () => {});
  const fail = async () => {
    throw (await ended) ?? failure('before the end of the files', output);
  };
  const kill = () => {
    child.kill('SIGKILL');
    // Another process may still hold the other ends.
    for (const stream of child.stdio) stream?.destroy();
  };
  const written = () =>
    stat(join(options.directory, options.output)).then(
      ({ size }) => size,
      () => 0,
    );
  /** Waits for something that it does, and ends it when it does nothing. */
  const unlessStalled = async <T>(work: Promise<T>): Promise<T> => {
    let known = -1;
    const timer = setInterval(async () => {
      const size = await written();
      isStalled ||= size === known;
      if (isStalled) kill();
      known = size;
    }, options.stallMs / 2);
    try {
      return await work;
    } finally {
      clearInterval(timer);
    }
  };

  return {
    async write(parts) {
      if (stdin.destroyed) return fail();
      stdin.cork();
      for (const part of parts) stdin.write(part);
      stdin.uncork();
      if (stdin.writableNeedDrain) await unlessStalled(drained(stdin));
    },

    async finish() {
      stdin.end();
      const fault = await unlessStalled(ended);
      if (fault) throw fault;
    },

    async stop() {
      kill();
      await ended;
    },
  };
}

function argumentsOf(options: SquashOptions): string[] {
  const { output, offset, rootMode, processors, hasAttributes, isCompressed } = options;
  const { mode, level } = options.compression;
  return [
    ...['-', output, '-tar', '-noappend', '-offset', String(offset)],
    ...['-comp', mode, '-Xcompression-level', String(level)],
    ...(isCompressed ? [] : ['-noD', '-noF']),
    ...['-all-root', ...(hasAttributes ? [] : ['-no-xattrs'])],
    ...['-root-mode', rootMode.toString(8)],
    ...['-mem', '64M', ...(processors === undefined ? [] : ['-processors', String(processors)])],
    ...['-quiet', '-no-progress', '-exit-on-error'],
  ];
}

/** Resolves when the stream wants more, or is gone. */
function drained(stream: Writable): Promise<void> {
  return new Promise(resolve => {
    const done = () => {
      stream.off('drain', done).off('close', done);
      resolve();
    };
    stream.on('drain', done).on('close', done);
  });
}

function notProvided(detail: string, cause?: unknown): Fault {
  const message = `Singularity images are made with mksquashfs, ${detail}: ${install}`;
  return new Fault('not-provided', message, { phase: 'build', cause });
}

function stalled(ms: number): Fault {
  const message = `mksquashfs did nothing for ${Math.round(ms / 1000)} seconds and was ended: make the image again; if that does not help, ask the operator to raise sif.stallTimeout`;
  return new Fault('unavailable', message, { phase: 'build' });
}

function failure(how: string, output: string): Fault {
  if (output.includes('No space left on device')) {
    const message =
      'There is no disk space left to make the Singularity image: have the operator make room';
    return new Fault('storage-full', message, { phase: 'build' });
  }
  // It quotes names of files as they are.
  const text = output.replace(/[^\x20-\x7e\n]/g, '?').trim();
  const lines = text.split('\n').slice(-shownLines).join('\n');
  return new Fault('internal', `mksquashfs ended with ${how}: ${lines || 'it said nothing'}`, {
    phase: 'build',
  });
}
