import { createBuildStore } from '../store/builds.ts';
import { createCachedBlobStore } from '../store/cached-blobs.ts';
import { createHostedStore } from '../store/hosted.ts';
import { createRequestStore } from '../store/requests.ts';
import { sweep } from '../upkeep/sweep.ts';
import { none } from './action.ts';
import { jsonOption } from './client.ts';
import type { Command } from './command.ts';
import { dataOptions, withLocalData } from './data.ts';

/** `sluice gc`: removes what nothing refers to. */
export const gcCommand: Command = {
  summary: 'Remove content that no repository, container token or cache refers to',
  usage: 'gc [options]',
  options: {
    'dry-run': { type: 'boolean', description: 'Only tell what would be removed' },
    ...dataOptions,
    json: jsonOption,
  },

  async run(values, args) {
    none(args, 'gc [options]');
    const isDryRun = values['dry-run'] === true;
    const report = await withLocalData(values, ({ config, content, database }) =>
      sweep(
        {
          content,
          hosted: createHostedStore(database),
          cachedBlobs: createCachedBlobStore(database),
          requests: createRequestStore(database),
          builds: createBuildStore(database),
        },
        { graceMs: config.sweep.grace, isDryRun },
      ),
    );
    if (values.json) {
      console.log(JSON.stringify(report, null, 2));
      return 0;
    }
    const { unlinked, removed, removedBytes, keptCount } = report;
    for (const { repository, digest } of unlinked) {
      console.log(`${repository}: no manifest refers to ${digest}`);
    }
    for (const { digest, size } of removed) console.log(`${digest} ${size} bytes`);
    const verb = isDryRun ? 'would be removed' : 'removed';
    console.log(`${removed.length} ${verb}, ${removedBytes} bytes; ${keptCount} kept`);
    return 0;
  },
};
