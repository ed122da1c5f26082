import { Fault } from '../../foundation/fault.ts';
import type { OpenedContent } from '../../storage/index.ts';
import type { Rows } from '../../storage/rows/index.ts';
import { type CopyReport, copyContent } from './backup.ts';

export interface MovedContent extends CopyReport {
  /** Where the former content is kept. */
  readonly former: string;
}

// The responses of a store far away take longer than the bytes of a usual document.
const atOnce = 8;

/**
 * Moves all content of a site to another place, whose server does not run. An interrupted move continues when it is
 * called again. The new place belongs to the rows once all content is there, and the former one no longer does.
 *
 * @throws {@link Fault} when the new place belongs to other rows
 */
export async function moveContent(
  from: OpenedContent,
  to: OpenedContent,
  { identity }: Pick<Rows, 'identity'>,
): Promise<MovedContent> {
  const id = await identity.id();
  if (id === undefined) throw isNew();
  if ((await from.place.readId()) !== id) throw isNotOwn(from);
  if (((await to.place.readId()) ?? id) !== id) throw belongsToOther(to);
  const report = await copyContent(from.content, to.content, { atOnce });
  await to.content.settle();
  await to.place.writeId(id);
  return { ...report, former: await from.place.retire() };
}

function isNew(): Fault {
  return new Fault('bad-request', 'This site has no content: no server has used it yet', {
    phase: 'store',
  });
}

function isNotOwn({ place: { name } }: OpenedContent): Fault {
  return new Fault(
    'bad-request',
    `${name} is not the content of this site. Nothing was moved: check SLUICE_CONTENT, and whether an earlier run has moved it`,
    { phase: 'store' },
  );
}

function belongsToOther({ place: { name } }: OpenedContent): Fault {
  return new Fault(
    'bad-request',
    `${name} belongs to another database. Nothing was moved: name another place`,
    { phase: 'store' },
  );
}
