import type { Digest } from '../../oci/digest.ts';
import { verify } from '../../server/upkeep/copies.ts';
import type { Values } from '../command/command.ts';
import { withLocalData } from './data.ts';
import { noteLocally } from './operator.ts';

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
