import { content as contentSetting } from '../../../server/config/index.ts';
import { moveContent } from '../../../server/upkeep/copies.ts';
import { lockData } from '../../../storage/directory/index.ts';
import { openForMove, openSiteRows } from '../../../storage/index.ts';
import { UsageError, type Values } from '../../command/command.ts';
import { print } from '../../command/output.ts';
import { requireData, withoutData } from '../data.ts';

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
