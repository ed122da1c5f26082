import { clocksOf, createSteadyClock, sweep } from '../../server/upkeep/sweep/index.ts';
import { lockData } from '../../storage/directory/index.ts';
import { isSqlite } from '../../storage/index.ts';
import type { Rows } from '../../storage/rows/index.ts';
import { CommandError, type Values } from '../command/command.ts';
import { noteLocally, withLocalData } from './local-data.ts';

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

/** Prints long lists entry by entry, as lines or as one JSON document. */
export interface Listing {
  /** Prints an entry of a list; all entries of one list come before those of the next. */
  entry(list: string, value: object, line: string): void;
  /** Prints the rest. */
  end(members: object, line: string): void;
}

/** @param lists the names of all lists, in the order in which they come */
function createListing(isJson: boolean, lists: readonly string[]): Listing {
  if (!isJson) {
    return {
      entry: (_list, _value, line) => console.log(line),
      end: (_members, line) => console.log(line),
    };
  }
  let opened = -1;
  let hasEntry = false;
  const openUpTo = (position: number) => {
    while (opened < position) {
      const start = opened < 0 ? '{' : `${hasEntry ? '\n  ' : ''}],`;
      opened += 1;
      hasEntry = false;
      process.stdout.write(`${start}\n  ${JSON.stringify(lists[opened])}: [`);
    }
  };
  return {
    entry(list, value) {
      openUpTo(lists.indexOf(list));
      process.stdout.write(`${hasEntry ? ',' : ''}\n    ${JSON.stringify(value)}`);
      hasEntry = true;
    },
    end(members) {
      openUpTo(lists.length - 1);
      const rest = Object.entries(members).map(
        ([name, value]) => `,\n  ${JSON.stringify(name)}: ${JSON.stringify(value)}`,
      );
      process.stdout.write(`${hasEntry ? '\n  ' : ''}]${rest.join('')}\n}\n`);
    },
  };
}
