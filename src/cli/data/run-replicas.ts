import { setTimeout as sleep } from 'node:timers/promises';
import type { Config } from '../../server/config/index.ts';
import { isSqlite } from '../../storage/index.ts';
import { openPostgresRows } from '../../storage/rows/index.ts';
import { type ListedReplica, openReplicaList } from '../../storage/rows/postgres/index.ts';
import { CommandError, print, table, type Values } from '../command/command.ts';
import { noteLocally, withoutData } from './local-data.ts';

/** Prints the replicas of the site. Returns the exit code. Throws {@link CommandError}. */
export async function runReplicasList(values: Values): Promise<number> {
  return withoutData(values, async config => {
    await using site = await openReplicaList(databaseOf(config));
    const replicas = (await site.list()).map(viewOf);
    const rows = replicas.map(({ address, role, version, startedAt, seenAt }) => [
      ...[address ?? '-', role, version ?? '-'],
      ...[startedAt ?? '-', seenAt],
    ]);
    const lines = table(['address', 'role', 'version', 'started', 'last seen'], rows);
    print(values, { replicas }, rows.length === 0 ? 'No server uses the database' : lines);
    return 0;
  });
}

const pauseMs = 200;
// More than the lead takes to change, on a busy machine as well. The choice ends earlier.
const patienceMs = 20_000;

/** Hands the lead over to a replica and prints who leads. Returns the exit code. Throws {@link CommandError}. */
export async function runReplicasLead(values: Values, given: string): Promise<number> {
  return withoutData(values, async config => {
    const database = databaseOf(config);
    await using site = await openReplicaList(database);
    const chosen = find(await site.list(), given);
    const address = shown(chosen.address);
    if (chosen.role === 'leader') {
      print(values, { address, changed: false }, `${address} leads already`);
      return 0;
    }
    if (chosen.role === 'wrong clock') {
      throw new CommandError(
        `The clock of ${address} differs from that of the database, so it does not lead: set the time of its machine, such as with NTP`,
      );
    }
    if (chosen.role === 'older version') {
      throw new CommandError(
        `${address} has version ${chosen.version ?? 'unknown'}, which is older than the schema of the database, so it does not lead: update it first`,
      );
    }
    const rows = await openPostgresRows(database);
    try {
      if (!(await site.choose(chosen.pid))) {
        throw new CommandError(
          `${address} cannot lead now: it has just ended, or another command hands the lead over. Run 'sluice replicas list', and try again in ten seconds`,
        );
      }
      const began = performance.now();
      while ((await site.leader()) !== chosen.address) {
        if (performance.now() - began > patienceMs) throw notLed(address, await site.leader());
        await sleep(pauseMs);
      }
      await noteLocally(rows, 'replicas.lead', address);
      print(values, { address, changed: true }, `${address} leads`);
      return 0;
    } finally {
      await rows.end();
    }
  });
}

function databaseOf(config: Config): string {
  if (!isSqlite(config)) return config.database;
  throw new CommandError(
    'The rows are in a file, which one server uses: only a site with PostgreSQL has replicas. Set SLUICE_DATABASE to the database of the site',
  );
}

/** Throws {@link CommandError} unless the address is that of one replica. */
function find(
  replicas: readonly ListedReplica[],
  given: string,
): ListedReplica & { readonly address: string } {
  const wanted = given.replace(/\/$/, '');
  const named = replicas.flatMap(one =>
    one.address !== undefined && URL.canParse(one.address)
      ? [{ ...one, address: one.address }]
      : [],
  );
  const fitting = named.filter(({ address }) =>
    [shown(address), new URL(address).host].includes(wanted),
  );
  // PostgreSQL may still list the session that a replica has lost.
  const [found] = fitting.sort((one, other) => other.seenAt.getTime() - one.seenAt.getTime());
  if (found) return found;
  const known = [...new Set(named.map(({ address }) => shown(address)))].join(', ');
  throw new CommandError(
    `No replica has the address ${wanted}. Those of the site: ${known === '' ? 'none' : known}`,
  );
}

function notLed(address: string, leader: string | undefined): CommandError {
  const who = leader === undefined ? 'No replica leads yet' : `${shown(leader)} leads`;
  return new CommandError(
    `${address} does not lead. ${who}. The logs of both say why: the replica may have ended meanwhile`,
  );
}

/** Addresses as an operator writes them. */
function shown(address: string): string {
  return address.replace(/\/$/, '');
}

function viewOf({ address, version, role, startedAt, seenAt }: ListedReplica) {
  return {
    address: address === undefined ? null : shown(address),
    role,
    version: version ?? null,
    startedAt: startedAt?.toISOString() ?? null,
    seenAt: seenAt.toISOString(),
  };
}
