import { existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { restore } from '../../server/upkeep/restore.ts';
import { openContentStore } from '../../storage/content/content-store.ts';
import { only, print } from '../action.ts';
import type { Command } from '../command.ts';
import { jsonOption } from '../server/server-client.ts';
import { dataOptions, withoutData } from './data.ts';

/** `sluice restore`: makes a data directory of a backup. The exit code is 1 when content was damaged or is missing. */
export const restoreCommand: Command = {
  summary: 'Make a new data directory of a backup',
  usage: 'restore [options] DIRECTORY',
  options: { ...dataOptions, json: jsonOption },

  async run(values, args) {
    const directory = resolve(only(args, 'restore [options] DIRECTORY'));
    const { report, data } = await withoutData(values, async config => {
      const data = resolve(config.data);
      const openContent = (path: string, isReadOnly: boolean) =>
        openContentStore(join(path, 'content'), { isReadOnly });
      return { data, report: await restore(directory, data, openContent) };
    });
    const { copied, copiedBytes, damaged, missing } = report;
    print(values, report, [
      ...damaged.map(digest => `damaged, not restored: ${digest}`),
      ...missing.map(({ repository, digest }) => `missing: ${repository} ${digest}`),
      `${copied} contents restored to ${data}, ${copiedBytes} bytes`,
      ...(existsSync(join(data, 'secrets.key'))
        ? []
        : [`Put secrets.key into ${data} before the server starts: the backup does not have it.`]),
    ]);
    return damaged.length + missing.length === 0 ? 0 : 1;
  },
};
