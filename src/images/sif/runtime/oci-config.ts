import { asObject, type JsonObject, memberName } from '../../../oci/json.ts';

/** Values that a SIF file uses from the `config` member of an OCI image config. */
export interface OciRuntime {
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  /** Entries of the form `NAME=value`. */
  readonly env: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
}

/** Reads the members. They may be missing, null, in another case, or of a type that old versions of Docker wrote. */
export function readOciRuntime(config: JsonObject): OciRuntime {
  const at = (member: string) => config[memberName(config, member)];
  const labels = Object.entries(asObject(at('Labels')) ?? {});
  return {
    entrypoint: strings(at('Entrypoint')),
    cmd: strings(at('Cmd')),
    env: strings(at('Env')),
    labels: Object.fromEntries(
      labels.filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
    ),
  };
}

function strings(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  return Array.isArray(value) ? value.filter(item => typeof item === 'string') : [];
}
