/**
 * Changes that a request makes to how containers of an image run. An absent field keeps the value of the image.
 *
 * This is the only declaration of these fields. The schema of a request, the build key, the image config, Singularity
 * images and the command line each have a table with a row for every field, so that the compiler reports the tables
 * that lack a new field.
 */
export interface ContainerConfig {
  readonly entrypoint?: readonly string[] | undefined;
  readonly cmd?: readonly string[] | undefined;
  readonly workingDir?: string | undefined;
  /** Each entry is `NAME=value`. */
  readonly env?: readonly string[] | undefined;
}

export type ConfigField = keyof ContainerConfig;

/** A row for every field: a function that takes the value of the field. */
export type ConfigTable<Row> = {
  readonly [Field in ConfigField]-?: (value: NonNullable<ContainerConfig[Field]>) => Row;
};

// An empty entrypoint removes the entrypoint of the image. An empty list that is merged changes nothing.
const isMerged: { readonly [Field in ConfigField]-?: boolean } = {
  entrypoint: false,
  cmd: false,
  workingDir: false,
  env: true,
};

/** All fields, in the order in which they are written into an image config. */
export const configFields = Object.keys(isMerged) as readonly ConfigField[];

/** Returns the rows of the fields that change something, in the order of the table. */
export function rowsOf<Row>(config: ContainerConfig, table: ConfigTable<Row>): Row[] {
  const fields = Object.keys(table) as ConfigField[];
  return fields
    .filter(field => isGiven(config, field))
    .map(field => (table[field] as (value: unknown) => Row)(config[field]));
}

/** Returns a copy of the object that has only the fields that change something. */
export function givenFields(config: ContainerConfig): ContainerConfig {
  const given = configFields.filter(field => isGiven(config, field));
  return Object.fromEntries(given.map(field => [field, config[field]]));
}

/** True when at least one field changes something. */
export function changesConfig(config: ContainerConfig): boolean {
  return configFields.some(field => isGiven(config, field));
}

function isGiven(config: ContainerConfig, field: ConfigField): boolean {
  const value = config[field];
  return value !== undefined && !(isMerged[field] && value.length === 0);
}
