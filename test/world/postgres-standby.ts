import assert from 'node:assert/strict';
import { chmod, chown, realpath } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { freePort } from './free-port.ts';
import { asNobody, isRoot, launchPostgres, nobody } from './postgres.ts';
import { runProgram } from './program.ts';
import { makeTempDir } from './temp-dir.ts';
import { requireCommand } from './tools.ts';

/** A read replica of a PostgreSQL, by streaming replication. */
export interface Standby extends AsyncDisposable {
  /** Returns the address of a database of the primary at this server. */
  addressOf(primary: string): string;
  /**
   * Starts it again after a crash.
   *
   * @param settings more settings of PostgreSQL, such as `recovery_min_apply_delay=60s`
   */
  start(settings?: readonly string[]): Promise<void>;
  /** Ends it at once, as a crash does. */
  crash(): Promise<void>;
}

/**
 * Starts a read replica with a copy of the data of a primary.
 *
 * @param primary address of one of its databases
 */
export async function startStandby(primary: string): Promise<Standby> {
  const directory = await makeTempDir('standby');
  const port = String(await freePort());
  if (isRoot) await chown(directory.path, nobody, nobody);
  await chmod(directory.path, 0o700);
  const program = join(dirname(await realpath(requireCommand('initdb'))), 'pg_basebackup');
  const copied = await runProgram(
    [
      ...[requireCommand('setpriv'), ...asNobody, program, '-d', primary.replace(/\/[^/]*$/, '')],
      ...['-D', directory.join('data'), '-R', '-X', 'stream', '-c', 'fast', '--no-sync'],
    ],
    { cwd: directory.path, env: {} },
  );
  assert.equal(copied.code, 0, copied.stderr);
  const launch = (settings: readonly string[] = []) =>
    launchPostgres(directory.path, port, ['fsync=off', 'max_connections=40', ...settings]);
  let daemon = await launch();
  return {
    addressOf(url) {
      const address = new URL(url);
      address.port = port;
      return address.href;
    },
    async start(settings) {
      daemon = await launch(settings);
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
