import { spawn } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Writable } from 'node:stream';
import { Fault } from '../../../foundation/fault.ts';
import type { Compression } from './compression.ts';

const install = 'install the Debian package squashfs-tools, version 4.5 or later';
/** Characters of output to keep, and lines of output to show after a failure. */
const keptOutput = 8 * 1024;
const shownLines = 5;

/** A running mksquashfs that converts a tar file to a file system. */
export interface Squasher {
  /** Takes the next part of the tar file. Resolves when it is ready for more. Throws a {@link Fault} if it failed. */
  write(parts: readonly Buffer[]): Promise<void>;
  /** Waits for the file system, after the end of the tar file. Throws a {@link Fault} if mksquashfs failed. */
  finish(): Promise<void>;
  /** Kills the process if it still runs. Resolves when it has exited. */
  stop(): Promise<void>;
}

export interface SquashOptions {
  /** Name or path of mksquashfs. */
  readonly command: string;
  /** Working directory, so that its messages contain no other path. */
  readonly directory: string;
  /** Name of the file to create in `directory`. */
  readonly output: string;
  /** Bytes to leave free before the file system. */
  readonly offset: number;
  /** Permissions of the root directory. */
  readonly rootMode: number;
  /** Seconds since the epoch: the time of the file system, and the latest time of a file. */
  readonly time: number;
  /** Threads that compress. Default: the number of processors. */
  readonly processors?: number | undefined;
  /** True if the tar file has extended attributes. */
  readonly hasAttributes: boolean;
  readonly compression: Compression;
  /** False if compression hardly reduces the content of files. */
  readonly isCompressed: boolean;
  /** True to store files with the same content once. */
  readonly mergesDuplicates: boolean;
  /** Milliseconds without any input or output before the process is killed. */
  readonly stallMs: number;
}

/** Short: `-version` only prints a few lines. */
const versionMs = 30_000;

/** Throws a {@link Fault} of kind `not-provided` unless a mksquashfs is installed that reads tar files. */
export async function requireMksquashfs(command: string): Promise<void> {
  const child = spawn(command, ['-version'], { stdio: ['ignore', 'pipe', 'ignore'] });
  let isOverdue = false;
  const timer = setTimeout(() => {
    isOverdue = true;
    child.kill('SIGKILL');
    // Another process may still have the other end open.
    child.stdout?.destroy();
  }, versionMs);
  let text = '';
  const ended = new Promise<void>((resolve, reject) => {
    child.once('close', () => resolve());
    child.once('error', cause => reject(notProvided('which is not installed', cause)));
  });
  // If no file descriptor is free, the child has no streams, and its `error` event follows.
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
  if (!canReadTar) throw notProvided('and the installed one cannot read tar files');
}

/**
 * Starts mksquashfs. The file system depends only on the tar file and the options, not on the machine.
 * Root owns all files, as in an image that an ordinary user builds with Apptainer.
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
  // If no file descriptor is free, the child has no streams.
  if (!child.stdin) throw notProvided('which could not be started');
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('latin1').on('data', part => {
      output = (output + part).slice(-keptOutput);
    });
  }
  const { stdin } = child;
  // `ended` reports why the process exited.
  stdin.on('error', () => {});
  const fail = async () => {
    throw (await ended) ?? failure('before the end of the files', output);
  };
  const kill = () => {
    child.kill('SIGKILL');
    // Another process may still have the other ends open.
    for (const stream of child.stdio) stream?.destroy();
  };
  const written = () =>
    stat(join(options.directory, options.output)).then(
      ({ size }) => size,
      () => 0,
    );
  /** Waits for `work`, and kills the process when it stalls. */
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
  const { output, offset, rootMode, processors, hasAttributes, isCompressed, mergesDuplicates } =
    options;
  const { mode, level } = options.compression;
  return [
    ...['-', output, '-tar', '-noappend', '-offset', String(offset)],
    ...['-comp', mode, '-Xcompression-level', String(level)],
    ...(isCompressed ? [] : ['-noD', '-noF']),
    ...(mergesDuplicates ? [] : ['-no-duplicates']),
    ...['-all-root', ...(hasAttributes ? [] : ['-no-xattrs'])],
    ...['-root-mode', rootMode.toString(8)],
    ...['-mem', '64M', ...(processors === undefined ? [] : ['-processors', String(processors)])],
    ...['-quiet', '-no-progress', '-exit-on-error'],
  ];
}

/** Resolves when the stream is ready for more, or is closed. */
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
  const message = `mksquashfs made no progress for ${Math.round(ms / 1000)} seconds and was stopped: request the image again; if that does not help, ask the operator to raise sif.stallTimeout`;
  return new Fault('unavailable', message, { phase: 'build' });
}

function failure(how: string, output: string): Fault {
  if (output.includes('No space left on device')) {
    const message =
      'The disk has no space left to make the Singularity image: ask the operator to free disk space';
    return new Fault('storage-full', message, { phase: 'build' });
  }
  // mksquashfs prints file names without escaping them.
  const text = output.replace(/[^\x20-\x7e\n]/g, '?').trim();
  const lines = text.split('\n').slice(-shownLines).join('\n');
  return new Fault('internal', `mksquashfs ended with ${how}: ${lines || 'it printed nothing'}`, {
    phase: 'build',
  });
}
