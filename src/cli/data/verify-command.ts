import { verify } from '../../server/upkeep/verify.ts';
import { createHostedStore } from '../../storage/rows/images/hosted-rows.ts';
import { none } from '../action.ts';
import type { Command } from '../command.ts';
import { jsonOption } from '../server/server-client.ts';
import { dataOptions, withLocalData } from './data.ts';
import { noteLocally } from './operator.ts';

/** `sluice verify`: reads everything again. The exit code is 1 when something is damaged. */
export const verifyCommand: Command = {
  summary: 'Read all content again and report what is damaged or missing',
  usage: 'verify [options]',
  options: {
    'remove-damaged': {
      type: 'boolean',
      description: 'Remove what is damaged, so that the next push or pull brings it anew',
    },
    'adopt-content': {
      type: 'boolean',
      description:
        'Use the content directory with this database, although it was lost or belonged to another',
    },
    ...dataOptions,
    json: jsonOption,
  },

  async run(values, args) {
    none(args, 'verify [options]');
    const removes = values['remove-damaged'] === true;
    const report = await withLocalData(
      values,
      async ({ content, database }) => {
        const found = await verify(content, createHostedStore(database), removes);
        if (removes && found.damaged.length > 0) {
          await noteLocally(database, 'content.remove-damaged', `${found.damaged.length} contents`);
        }
        return found;
      },
      { adoptContent: values['adopt-content'] === true },
    );
    const { checked, checkedBytes, damaged, missing } = report;
    const isWhole = damaged.length === 0 && missing.length === 0;
    if (values.json) {
      console.log(JSON.stringify(report, null, 2));
    } else {
      for (const digest of damaged) console.log(`damaged: ${digest}`);
      for (const { repository, digest } of missing) console.log(`missing: ${repository} ${digest}`);
      console.log(
        `${checked} checked, ${checkedBytes} bytes; ${damaged.length} damaged, ${missing.length} missing`,
      );
      if (missing.length > 0) console.log('What is missing comes back when it is pushed again.');
    }
    return isWhole ? 0 : 1;
  },
};
