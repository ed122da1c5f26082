import assert from 'node:assert/strict';
import { chmod, chown, copyFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import type { Certificates } from './certificates.ts';
import { type Daemon, startDaemon, waitForLine } from './daemon.ts';
import { freePort } from './free-port.ts';
import { runProgram } from './program.ts';
import { sharedFolder } from './run-folder.ts';
import { makeTempDir } from './temp-dir.ts';
import { requireCommand } from './tools.ts';

/** A running PostgreSQL. */
export interface Postgres extends AsyncDisposable {
  /** Makes an empty database and returns its address. */
  createDatabase(): Promise<string>;
  /** Accepts TLS, without a new start. */
  useCertificate(files: Certificates): Promise<void>;
  /** Starts the server again after `stop`, on the same port: as before, or as a standby that accepts no changes. */
  start(role?: 'primary' | 'standby'): Promise<void>;
  stop(): Promise<void>;
  /** Ends the server at once, as a crash does: it recovers when it starts again. */
  crash(): Promise<void>;
}

// PostgreSQL refuses to run as root.
export const nobody = 65_534;

export const isRoot = process.getuid?.() === 0;
export const asNobody = isRoot ? [`--reuid=${nobody}`, `--regid=${nobody}`, '--clear-groups'] : [];

/** Makes the data of a server without databases, which takes longer than a copy of it. */
async function makeEmpty(folder: string): Promise<void> {
  await using directory = await makeTempDir('postgres');
  const data = directory.join('data');
  if (isRoot) await chown(directory.path, nobody, nobody);
  const options = ['-U', 'sluice', '-A', 'trust', '-E', 'UTF8', '--no-sync'];
  const made = await runProgram(
    [requireCommand('setpriv'), ...asNobody, requireCommand('initdb'), '-D', data, ...options],
    { cwd: directory.path, env: {} },
  );
  assert.equal(made.code, 0, made.stderr);
  // Another user cannot enter the folder of a run.
  await rename(data, join(folder, 'data'));
}

/**
 * Starts PostgreSQL on a free port of 127.0.0.1, with its data in a temporary directory.
 *
 * @param options.parent where that directory is
 * @param options.durable waits for the disk, as in production. Tests are faster without: a crash of the process loses nothing.
 */
export async function startPostgres({
  durable = false,
  parent,
}: {
  readonly durable?: boolean;
  readonly parent?: string;
} = {}): Promise<Postgres> {
  const directory = await makeTempDir('postgres', parent);
  const port = String(await freePort());
  const data = directory.join('data');
  if (isRoot) await chown(directory.path, nobody, nobody);
  const empty = join(await sharedFolder('postgres', makeEmpty), 'data');
  const copied = await runProgram(['cp', '-a', empty, data], { env: process.env });
  assert.equal(copied.code, 0, copied.stderr);
  // As after `initdb`.
  if (durable) await runProgram(['sync', '--file-system', data], { env: process.env });
  const launch = () =>
    launchPostgres(directory.path, port, [`fsync=${durable ? 'on' : 'off'}`, 'max_connections=40']);
  let daemon = await launch();
  const addressOf = (name: string) => `postgres://sluice@127.0.0.1:${port}/${name}`;
  const administer = async (...statements: readonly string[]) => {
    const client = new pg.Client(addressOf('postgres'));
    await client.connect();
    for (const statement of statements) await client.query(statement);
    await client.end();
  };
  let databases = 0;
  return {
    async createDatabase() {
      databases += 1;
      const name = `database_${databases}`;
      await administer(`CREATE DATABASE ${name}`);
      return addressOf(name);
    },
    async useCertificate({ certificate, key }) {
      for (const [name, source] of Object.entries({
        'server.crt': certificate,
        'server.key': key,
      })) {
        const file = join(data, name);
        await copyFile(source, file);
        await chmod(file, 0o600);
        if (isRoot) await chown(file, nobody, nobody);
      }
      await administer('ALTER SYSTEM SET ssl = on', 'SELECT pg_reload_conf()');
    },
    async start(role = 'primary') {
      const signal = join(data, 'standby.signal');
      if (role === 'standby') await writeFile(signal, '');
      else await rm(signal, { force: true });
      daemon = await launch();
    },
    // SIGTERM would wait until all clients leave.
    async stop() {
      daemon.process.kill('SIGINT');
      await daemon.ended;
    },
    async crash() {
      daemon.process.kill('SIGQUIT');
      await daemon.ended;
    },
    async [Symbol.asyncDispose]() {
      daemon.process.kill('SIGINT');
      await daemon.ended;
      await directory.remove();
    },
  };
}

/** Starts PostgreSQL with the data in `data` of a directory. */
export async function launchPostgres(
  directory: string,
  port: string,
  settings: readonly string[],
): Promise<Daemon> {
  const all = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', ...settings];
  // A process that changes its user is not ended with its parent unless it asks for that afterwards.
  const command = [
    ...[...asNobody, requireCommand('setpriv'), '--pdeathsig', 'INT', requireCommand('postgres')],
    ...['-D', join(directory, 'data'), '-p', port, ...all.flatMap(setting => ['-c', setting])],
  ];
  const started = startDaemon('setpriv', command, { cwd: directory });
  await waitForLine(started, /ready to accept (?:read-only )?connections/);
  return started;
}
