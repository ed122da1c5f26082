import type { RowDatabase } from '../driver/row-database.ts';
import type { BuildRow } from './build-rows.ts';

/** A build as a list shows it: without its plan. */
export interface ListedBuild
  extends Pick<
    BuildRow,
    'id' | 'target' | 'owner' | 'grant' | 'createdAt' | 'startedAt' | 'finishedAt' | 'succeeded'
  > {
  /** Place in the list. */
  readonly row: number;
  /** `dockerfile`, `definition`, `conda`, or `image`; `recipe` for builds of early versions. */
  readonly kind: string;
  readonly platforms: readonly string[];
  readonly isSif: boolean;
}

export interface BuildListQuery {
  /** The caller that requested the builds; undefined for all. */
  readonly owner: string | undefined;
  /** `null`: unfinished builds; undefined: all builds. */
  readonly succeeded: boolean | null | undefined;
  /** The place before which the list begins. */
  readonly before: number;
  readonly limit: number;
}

export interface BuildListStore {
  /** Returns builds, the newest first. */
  list(query: BuildListQuery): Promise<ListedBuild[]>;
}

type StoredBuild = Omit<ListedBuild, 'owner' | 'succeeded' | 'platforms' | 'isSif'> & {
  readonly owner: string | null;
  readonly succeeded: number | null;
  readonly platforms: string | null;
  readonly isSif: number;
};

export function createBuildListStore(database: RowDatabase): BuildListStore {
  const select = `SELECT rowid AS row, id, target, owner, sealed_grant AS grant, created_at AS createdAt, started_at AS startedAt,
      finished_at AS finishedAt, succeeded, json_extract(plan, '$.origin.platforms') AS platforms,
      COALESCE(json_extract(plan, '$.origin.recipe'), json_extract(plan, '$.origin.kind')) AS kind,
      json_type(plan, '$.sif') IS NOT NULL AS isSif
    FROM builds WHERE rowid < @before`;
  const order = 'ORDER BY rowid DESC LIMIT @limit';
  // One statement for each form of the query, so that each has its index.
  const all = database.sql<StoredBuild>(`${select} ${order}`);
  const ofResult = database.sql<StoredBuild>(`${select} AND succeeded = @result ${order}`);
  const unfinished = database.sql<StoredBuild>(`${select} AND succeeded IS NULL ${order}`);
  const ofOwner = database.sql<StoredBuild>(`${select} AND owner = @owner ${order}`);
  const ofBoth = database.sql<StoredBuild>(
    `${select} AND owner = @owner AND succeeded = @result ${order}`,
  );
  const unfinishedOfOwner = database.sql<StoredBuild>(
    `${select} AND owner = @owner AND succeeded IS NULL ${order}`,
  );
  const statementOf = ({ owner, succeeded }: BuildListQuery) => {
    if (succeeded === undefined) return owner === undefined ? all : ofOwner;
    if (succeeded === null) return owner === undefined ? unfinished : unfinishedOfOwner;
    return owner === undefined ? ofResult : ofBoth;
  };
  return {
    async list(query) {
      const { owner, succeeded, before, limit } = query;
      const given = {
        before,
        limit,
        ...(owner === undefined ? {} : { owner }),
        ...(typeof succeeded === 'boolean' ? { result: Number(succeeded) } : {}),
      };
      return (await database.read(statementOf(query).all(given))).map(row => ({
        ...row,
        owner: row.owner ?? '',
        succeeded: row.succeeded === null ? null : row.succeeded === 1,
        platforms: row.platforms === null ? [] : (JSON.parse(row.platforms) as string[]),
        isSif: row.isSif === 1,
      }));
    },
  };
}
