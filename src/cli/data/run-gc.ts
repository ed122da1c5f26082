import { clocksOf, createSteadyClock, sweep } from '../../server/upkeep/sweep/index.ts';
import { lockData } from '../../storage/directory/index.ts';
import { isSqlite } from '../../storage/index.ts';
import type { Rows } from '../../storage/rows/index.ts';
import { CommandError, type Values } from '../command/command.ts';
import { createListing } from '../command/print-list.ts';
import { withLocalData } from './data.ts';
import { noteLocally } from './operator.ts';

/** Removes unreferenced content and prints it. Returns the exit code. Throws {@link CommandError}. */
export async function runGc(values: Values): Promise<number> {
  const isDryRun = values['dry-run'] === true;
  const print = createListing(values.json === true, ['unlinked', 'removed']);
  await withLocalData(values, async ({ config, content, rows }) => {
    if (values.compact === true && !isSqlite(config)) {
      throw new CommandError(
        'The rows are in PostgreSQL, which uses its free space again by itself. Leave out --compact. VACUUM FULL in PostgreSQL returns space to the disk',
      );
    }
    using _lock = values.compact === true ? await lockOf(config.data) : undefined;
    if (!isDryRun && values['trust-clock'] !== true) await requireSteadyClock(rows);
    const report = await sweep(
      { content, ...rows },
      {
        graceMs: config.sweep.grace,
        isDryRun,
        onUnlinked: blob =>
          print.entry('unlinked', blob, `${blob.repository}: no manifest refers to ${blob.digest}`),
        onRemoved: content =>
          print.entry('removed', content, `${content.digest} ${content.size} bytes`),
      },
    );
    if (!isDryRun) {
      const target = `${report.removedCount} contents, ${report.removedBytes} bytes`;
      await noteLocally(rows, 'content.remove', target);
      await rows.upkeep.returnFreeSpace();
    }
    // Rewrites the file with the current settings, so that it returns space from now on.
    if (values.compact === true) await rows.upkeep.compact();
    const { removedCount, removedBytes, keptCount } = report;
    const verb = isDryRun ? 'would be removed' : 'removed';
    print.end(
      { removedBytes, keptCount },
      `${removedCount} ${verb}, ${removedBytes} bytes; ${keptCount} kept`,
    );
    await adviseCompacting(rows);
  });
  return 0;
}

async function requireSteadyClock(rows: Rows): Promise<void> {
  if ((await createSteadyClock(rows.clockReadings, clocksOf(rows)).look()).isSteady) return;
  throw new CommandError(
    'The clock of this machine has jumped ahead, so that all content looks old. Check the clock. If it is right, add --trust-clock',
  );
}

function lockOf(directory: string): Promise<Disposable> {
  return lockData(directory, () =>
    console.error('A server uses the data directory. Stop it to compact the database'),
  );
}

const muchBytes = 64 * 1024 * 1024;

async function adviseCompacting(rows: Rows): Promise<void> {
  const { freeBytes, fileBytes, isReturnable } = await rows.upkeep.freeSpace();
  if (isReturnable || freeBytes < Math.max(muchBytes, fileBytes / 4)) return;
  console.error(
    `${freeBytes} bytes of the database are free but not returned to the disk. Stop the server and run sluice gc --compact`,
  );
}
