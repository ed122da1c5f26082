/** What a server holds: memory, descriptors, threads, connections, files and rows. */
import { existsSync } from 'node:fs';
import { readdir, readFile, readlink } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import Database from 'better-sqlite3';
import pg from 'pg';
import type { OwnFigures } from './probe.ts';

/** Figures by name, such as `descriptors: socket`. */
export type Figures = Readonly<Record<string, number>>;

export interface Measured {
  readonly pid: number;
  readonly data: string;
  /** Socket of its probe. */
  readonly probe: string;
  /** Ports that it listens on. */
  readonly ports: readonly number[];
  /** Address of its PostgreSQL. Default: its own file. */
  readonly database?: string;
}

export async function figuresOf(server: Measured): Promise<Figures> {
  const own = JSON.parse(await text(connect(server.probe))) as OwnFigures;
  const { heap, code, external, arrayBuffers, handles, listeners } = own;
  return {
    ...{ heap, 'compiled code': code, external, 'array buffers': arrayBuffers },
    'resident memory': await residentBytes(server.pid),
    threads: (await readdir(`/proc/${server.pid}/task`)).length,
    'process listeners': listeners,
    ...prefixed('handles', handles),
    ...(await descriptorsOf(server)),
    ...(await filesOf(server.data)),
    ...prefixed('rows', await rowsOf(server)),
  };
}

function prefixed(prefix: string, counts: Readonly<Record<string, number>>): Figures {
  return Object.fromEntries(
    Object.entries(counts).map(([name, count]) => [`${prefix}: ${name}`, count]),
  );
}

async function residentBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s*(\d+) kB$/m.exec(status)?.[1]) * 1024;
}

/** Open files by kind, and connections by the side that opened them. */
async function descriptorsOf({ pid, data, ports }: Measured): Promise<Figures> {
  const counts: Record<string, number> = { 'connections: server': 0, 'connections: own': 0 };
  const add = (name: string) => {
    counts[name] = (counts[name] ?? 0) + 1;
  };
  const local = await localPorts(pid);
  for (const fd of await readdir(`/proc/${pid}/fd`)) {
    const target = await readlink(`/proc/${pid}/fd/${fd}`).catch(() => '');
    const [, inode] = /^socket:\[(\d+)\]$/.exec(target) ?? [];
    const port = inode === undefined ? undefined : local.get(inode);
    if (port !== undefined) add(`connections: ${ports.includes(port) ? 'server' : 'own'}`);
    if (target.startsWith(data)) add('descriptors: data directory');
    else add(`descriptors: ${target.replace(/[:/].*/s, '') || 'other files'}`);
  }
  return counts;
}

/** Local ports of TCP sockets by their inodes. Source: proc_net(5), /proc/net/tcp. */
async function localPorts(pid: number): Promise<Map<string, number>> {
  const ports = new Map<string, number>();
  for (const table of ['tcp', 'tcp6']) {
    const lines = (await readFile(`/proc/${pid}/net/${table}`, 'utf8')).trim().split('\n').slice(1);
    for (const line of lines) {
      const [, local = '', , , , , , , , inode = ''] = line.trim().split(/\s+/);
      ports.set(inode, Number.parseInt(local.split(':').at(-1) ?? '', 16));
    }
  }
  return ports;
}

/** Files of the data directory, by its folders. */
async function filesOf(data: string): Promise<Figures> {
  const counts: Record<string, number> = {};
  // A replica that has not led has no directory.
  if (!existsSync(data)) return counts;
  for (const entry of await readdir(data, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const [one = '', two = ''] = join(entry.parentPath, '')
      .slice(data.length + 1)
      .split('/');
    const folder = one === 'content' || one === 'bucket' ? `${one}/${two}` : one;
    counts[`files: ${folder}`] = (counts[`files: ${folder}`] ?? 0) + 1;
  }
  return counts;
}

async function rowsOf({ data, database }: Measured): Promise<Record<string, number>> {
  if (database !== undefined) return postgresRows(database);
  const rows = new Database(join(data, 'sluice.db'), { readonly: true });
  try {
    const names = rows
      .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
      .pluck()
      .all() as string[];
    const count = (name: string) => rows.prepare(`SELECT count(*) FROM "${name}"`).pluck().get();
    return Object.fromEntries(names.map(name => [name, Number(count(name))]));
  } finally {
    rows.close();
  }
}

async function postgresRows(database: string): Promise<Record<string, number>> {
  const client = new pg.Client(database);
  await client.connect();
  try {
    const { rows } = await client.query<{ name: string }>(
      "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public'",
    );
    const counts: Record<string, number> = {};
    for (const { name } of rows) {
      const found = await client.query(`SELECT count(*) AS count FROM "${name}"`);
      counts[name] = Number(found.rows[0]?.count);
    }
    return counts;
  } finally {
    await client.end();
  }
}
