import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Digest } from '../../oci/digest.ts';
import { content as contentSetting } from '../../server/config/index.ts';
import { backup, moveContent, restore, verify } from '../../server/upkeep/copies.ts';
import { openContentDirectory } from '../../storage/content/index.ts';
import { lockData } from '../../storage/directory/index.ts';
import { isDirectory, isSqlite, openForMove, openSiteRows } from '../../storage/index.ts';
import { CommandError, print, UsageError, type Values } from '../command/command.ts';
import { noteLocally, requireData, withLocalData, withoutData } from './local-data.ts';

/** Copies the data directory into the given one. Returns the exit code. Throws {@link CommandError}. */
export async function runBackup(values: Values, directory: string): Promise<number> {
  const withSecretsKey = values['with-secrets-key'] === true;
  const report = await withLocalData(values, async ({ config, rows }) => {
    if (!isSqlite(config)) {
      throw new CommandError(
        'The rows are in PostgreSQL, and sluice backup does not copy them. Stop the server, copy the data directory, and copy the database with pg_dump',
      );
    }
    if (!isDirectory(config)) {
      throw new CommandError(
        'The content is in an object store, and sluice backup does not copy it. Stop the server, copy the data directory, and copy the bucket with the tools of the store',
      );
    }
    const own = resolve(config.data);
    if (directory === own || directory.startsWith(`${own}/`)) {
      throw new CommandError(`${directory} is inside the data directory. Name another directory`);
    }
    const source = {
      directory: own,
      content: await openContentDirectory(join(own, 'content'), { isReadOnly: true }),
      rows,
    };
    const target = { directory, content: await openContentDirectory(join(directory, 'content')) };
    return backup(source, target, { withSecretsKey, checksTarget: values.check === true });
  });
  const { copied, copiedBytes, kept, damaged } = report;
  print(values, report, [
    ...damaged.map(digest => `damaged, not copied: ${digest}`),
    `Copied ${copied} contents, ${copiedBytes} bytes; the backup already had ${kept}`,
    ...(withSecretsKey
      ? []
      : [
          'Keep a copy of secrets.key in another place: without it, the stored passwords are lost.',
        ]),
  ]);
  return damaged.length === 0 ? 0 : 1;
}

/** Makes a data directory from the backup in the given one. Returns the exit code. Throws `CommandError`. */
export async function runRestore(values: Values, directory: string): Promise<number> {
  const { report, data } = await withoutData(values, async config => {
    if (!isSqlite(config)) {
      throw new CommandError(
        'sluice restore restores into SQLite only. Set SLUICE_DATABASE to sqlite, or restore PostgreSQL with its own tools',
      );
    }
    if (!isDirectory(config)) {
      throw new CommandError(
        'sluice restore restores content into a directory only. Set SLUICE_CONTENT to directory, or restore the bucket with the tools of the store',
      );
    }
    const data = resolve(config.data);
    const openContent = (path: string, isReadOnly: boolean) =>
      openContentDirectory(join(path, 'content'), { isReadOnly });
    return { data, report: await restore(directory, data, openContent) };
  });
  const { copied, copiedBytes, damaged, missing } = report;
  print(values, report, [
    ...damaged.map(digest => `damaged, not restored: ${digest}`),
    ...missing.map(({ repository, digest }) => `missing: ${repository} ${digest}`),
    `Restored ${copied} contents to ${data}, ${copiedBytes} bytes`,
    ...(existsSync(join(data, 'secrets.key'))
      ? []
      : [
          `Copy secrets.key into ${data} before you start the server: the backup does not contain it.`,
        ]),
  ]);
  return damaged.length + missing.length === 0 ? 0 : 1;
}

/**
 * Moves the content of a site to another place and prints what was moved. Returns the exit code. Throws
 * `CommandError`.
 */
export async function runMoveContent(values: Values, to: string): Promise<number> {
  const { error } = contentSetting.safeParse(to);
  if (error) throw new UsageError(`--content-to is not a place: ${error.issues[0]?.message}`);
  const report = await withoutData(values, async (config, { proxyFor }) => {
    if (config.content === to) {
      throw new UsageError(`The content is in ${to} already, as SLUICE_CONTENT says`);
    }
    requireData(config);
    using _lock = await lockData(config.data, () => {}, {
      patienceMs: 0,
      message: `A server uses ${config.data}. Stop it, and run the command again`,
    });
    const rows = await openSiteRows(config);
    try {
      await using from = closing(await openForMove({ ...config, proxyFor }));
      await using target = closing(await openForMove({ ...config, proxyFor, content: to }));
      return await moveContent(from, target, rows);
    } finally {
      await rows.end();
    }
  });
  const { copied, copiedBytes, kept, damaged, former } = report;
  print(values, report, [
    ...damaged.map(digest => `damaged, not moved: ${digest}`),
    `Moved ${copied} contents, ${copiedBytes} bytes; ${to} already had ${kept}.`,
    `Set SLUICE_CONTENT to ${to}, and start the server with the same data directory.`,
    `The former content is kept in ${former}: remove it when the server runs well.`,
  ]);
  return damaged.length === 0 ? 0 : 1;
}

function closing(opened: Awaited<ReturnType<typeof openForMove>>) {
  return { ...opened, [Symbol.asyncDispose]: () => opened.content.close() };
}

/** Verifies all content and prints what is damaged or missing. Returns the exit code. Throws `CommandError`. */
export async function runVerify(values: Values): Promise<number> {
  const removes = values['remove-damaged'] === true;
  const report = await withLocalData(
    values,
    async ({ content, rows }) => {
      let count = 0;
      const onDamaged = (digest: Digest): void => {
        count += 1;
        if (!values.json) console.log(`damaged: ${digest}`);
      };
      try {
        return await verify(content, rows.hosted, removes, onDamaged);
      } finally {
        // Also when the command fails: what was removed stays removed.
        if (removes && count > 0) {
          await noteLocally(rows, 'content.remove-damaged', `${count} contents`);
        }
      }
    },
    { adoptContent: values['adopt-content'] === true },
  );
  const { checked, checkedBytes, damaged, missing } = report;
  const isWhole = damaged.length === 0 && missing.length === 0;
  if (values.json) {
    console.log(JSON.stringify(report, null, 2));
  } else {
    for (const { repository, digest } of missing) console.log(`missing: ${repository} ${digest}`);
    console.log(
      `${checked} checked, ${checkedBytes} bytes; ${damaged.length} damaged, ${missing.length} missing`,
    );
    if (missing.length > 0) console.log('To restore missing content, push it again.');
  }
  return isWhole ? 0 : 1;
}
