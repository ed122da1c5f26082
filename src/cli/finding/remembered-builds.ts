import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Values } from '../command/command.ts';
import { serverAddress } from '../server-client.ts';

// Without a login, a server lists no builds: their ids give access to them. So the machine remembers those of its user.
const mostBuilds = 50;
const maxBytes = 64 * 1024;

interface Remembered {
  readonly server: string;
  readonly id: string;
}

/** Notes a build that was requested at the server of this command. Does nothing where it cannot be written. */
export async function rememberBuild(values: Values, id: string): Promise<void> {
  const path = fileOfUser();
  if (path === undefined) return;
  const server = serverAddress(values);
  const others = (await readBuilds(path)).filter(one => one.server !== server || one.id !== id);
  const builds = [{ server, id }, ...others].slice(0, mostBuilds);
  try {
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    // Two commands at once: the last one wins, and neither leaves half a file.
    const own = `${path}.${process.pid}`;
    await writeFile(own, JSON.stringify({ builds }), { mode: 0o600 });
    await rename(own, path);
  } catch {
    // A full or read-only home must not fail a build.
  }
}

/** Returns the ids of the builds that were requested from this machine at the server of this command, the newest first. */
export async function rememberedBuilds(values: Values): Promise<readonly string[]> {
  const path = fileOfUser();
  const builds = path === undefined ? [] : await readBuilds(path);
  return builds.filter(({ server }) => server === serverAddress(values)).map(({ id }) => id);
}

function fileOfUser(): string | undefined {
  const { XDG_STATE_HOME: state, HOME: home } = process.env;
  const folder = state || (home && join(home, '.local', 'state'));
  return folder ? join(folder, 'sluice', 'builds.json') : undefined;
}

async function readBuilds(path: string): Promise<readonly Remembered[]> {
  try {
    const text = await readFile(path, 'utf8');
    const { builds } = JSON.parse(text.slice(0, maxBytes)) as { builds: readonly unknown[] };
    return builds.filter(isRemembered).slice(0, mostBuilds);
  } catch {
    return [];
  }
}

function isRemembered(value: unknown): value is Remembered {
  const { server, id } = (value ?? {}) as Partial<Remembered>;
  return typeof server === 'string' && typeof id === 'string' && /^[\w-]{1,100}$/.test(id);
}
