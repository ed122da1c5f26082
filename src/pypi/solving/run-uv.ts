import { mkdir, open, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Fault } from '../../foundation/fault.ts';
import { runLimited } from '../../foundation/limited-program.ts';

export interface UvOrder {
  /** Path of the program. */
  readonly program: string;
  /** An empty directory of its own, with an absolute path. */
  readonly directory: string;
  /** Address of the index. */
  readonly index: string;
  /** Lines that Sluice printed from what it had read. */
  readonly requirements: readonly string[];
  /** True to add no package that another one requires. */
  readonly isLocked?: boolean | undefined;
  /** True to choose versions that are not final as others. Default: only where a requirement names one, or there is no other. */
  readonly prereleases?: boolean | undefined;
  /** Text of the program that answers for Python. */
  readonly python: string;
  readonly timeoutMs: number;
  readonly memoryBytes: number;
  readonly signal: AbortSignal;
}

/** The end of a solve: a lock file, or why there is none. */
export type UvResult =
  | { readonly lock: string }
  /** The explanation of uv. */
  | { readonly problem: string };

const maxLockBytes = 16 * 1024 * 1024;
const spareAddresses = 3 * 1024 * 1024 * 1024;

/**
 * Solves requirements with uv, in a process group of its own. It sees no settings of the machine and none of the operator, has no
 * network but the index, and ends with its time or memory. Throws a `Fault` for these.
 */
export async function runUv(order: UvOrder): Promise<UvResult> {
  try {
    return await runIn(order);
  } finally {
    await rm(order.directory, { recursive: true, force: true }).catch(() => {});
  }
}

async function runIn(order: UvOrder): Promise<UvResult> {
  const { program, directory, index, signal } = order;
  const home = join(directory, 'home');
  const python = join(directory, 'python');
  const lockFile = join(directory, 'pylock.toml');
  await mkdir(home, { recursive: true, mode: 0o700 });
  await writeFile(join(directory, 'requirements.in'), `${order.requirements.join('\n')}\n`);
  await writeFile(python, order.python, { mode: 0o700 });
  const seconds = Math.ceil(order.timeoutMs / 1000);
  const { end, code, output } = await runLimited({
    program,
    args: [
      ...['pip', 'compile', 'requirements.in'],
      ...['--no-config', '--no-cache', '--python', python, '--no-python-downloads'],
      ...['--only-binary', ':all:', '--keyring-provider', 'disabled'],
      ...(order.isLocked ? ['--no-deps'] : []),
      ...(order.prereleases ? ['--prerelease', 'allow'] : []),
      ...['--format', 'pylock.toml', '--output-file', 'pylock.toml', '--no-header'],
      ...['--no-progress', '--quiet', '--color', 'never'],
    ],
    directory,
    env: {
      HOME: home,
      TMPDIR: home,
      PATH: '/nonexistent',
      LC_ALL: 'C',
      // Its address is a secret, and other users of the machine see the arguments of programs.
      UV_DEFAULT_INDEX: index,
      UV_HTTP_RETRIES: '0',
      // The limits of the index count, which say what is slow.
      UV_HTTP_TIMEOUT: String(seconds),
      UV_CONCURRENT_DOWNLOADS: '16',
      TOKIO_WORKER_THREADS: '2',
      RAYON_NUM_THREADS: '2',
      // Nothing listens there: all that is not the index is out of reach.
      ALL_PROXY: 'http://127.0.0.1:9',
      HTTP_PROXY: 'http://127.0.0.1:9',
      HTTPS_PROXY: 'http://127.0.0.1:9',
      NO_PROXY: '127.0.0.1',
    },
    timeoutMs: order.timeoutMs,
    memoryBytes: order.memoryBytes,
    spareAddresses,
    signal,
  });
  if (end === 'too large') throw memoryFault(order.memoryBytes);
  if (end === 'too long') throw timeFault(order.timeoutMs);
  if (code !== 0) return { problem: withoutPlaces(output, order) };
  try {
    return { lock: await readStart(lockFile) };
  } catch (error) {
    // uv has ended well without a lock file.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { problem: 'it has no result' };
    throw error;
  }
}

function timeFault(ms: number): Fault {
  return new Fault(
    'bad-request',
    `The Python packages were not solved within ${Math.ceil(ms / 1000)} s: name the versions of more packages`,
    { phase: 'build' },
  );
}

function memoryFault(bytes: number): Fault {
  return new Fault(
    'bad-request',
    `Solving the Python packages requires more than ${Math.floor(bytes / 1024 / 1024)} MiB of memory: name the versions of more packages`,
    { phase: 'build' },
  );
}

async function readStart(path: string): Promise<string> {
  const file = await open(path);
  try {
    const { size } = await file.stat();
    if (size > maxLockBytes) {
      throw new Fault('bad-request', 'The solution of the Python packages is too large', {
        phase: 'build',
      });
    }
    return await file.readFile('utf8');
  } finally {
    await file.close();
  }
}

/** An absolute path: of this server, or of the Python that is none. */
const placeHere = /(^|[\s'"`(])\/[^\s'"`)]+/g;

/** What is left of the address of the index. */
const nowhere = ' at ``';

const login = /\/\/[^@/\s]{1,300}@/g;

/** Returns the words of uv without logins, and without addresses and paths of this server. */
function withoutPlaces(output: string, { index, directory, program }: UvOrder): string {
  return output
    .replaceAll(index, '')
    .replaceAll(index.replace(/simple\/$/, ''), '')
    .replaceAll(directory, '')
    .replaceAll(program, 'uv')
    .replace(placeHere, '$1')
    .replace(login, '//')
    .replaceAll(nowhere, '')
    .replace(/^error: /, '')
    .split('\n')
    .map(line => line.trim().replace(/^cause: /, ''))
    .filter(line => line !== '')
    .join(' ')
    .slice(0, 4000);
}
