import { envName } from '../../images/augment/index.ts';
import { asObject, type JsonObject, memberName } from '../../oci/index.ts';

/** A line of the configuration of an image, before and after a change. */
export interface ConfigRow {
  /** Such as `Entrypoint`, or the name of a variable. */
  readonly name: string;
  /** Undefined where the image has no such value. */
  readonly before: string | undefined;
  readonly after: string | undefined;
}

/** The rows of one kind. */
export interface ConfigGroup {
  readonly title: string;
  readonly rows: readonly ConfigRow[];
}

const single: ReadonlyArray<{ readonly member: string; readonly title: string }> = [
  { member: 'Entrypoint', title: 'Entrypoint' },
  { member: 'Cmd', title: 'Command' },
  { member: 'WorkingDir', title: 'Working directory' },
  { member: 'User', title: 'User' },
  { member: 'StopSignal', title: 'Stop signal' },
  { member: 'ExposedPorts', title: 'Ports' },
  { member: 'Volumes', title: 'Volumes' },
];

/** Compares the configurations of two images. Leaves out what neither has. */
export function configDifference(before: JsonObject, after: JsonObject): readonly ConfigGroup[] {
  const [old, now] = [runtimeIn(before), runtimeIn(after)];
  const groups = [
    {
      title: 'How it starts',
      rows: single.map(({ member, title }) => ({
        name: title,
        before: textOf(memberOf(old, member)),
        after: textOf(memberOf(now, member)),
      })),
    },
    { title: 'Environment', rows: rowsOf(environmentOf(old), environmentOf(now)) },
    { title: 'Labels', rows: rowsOf(labelsOf(old), labelsOf(now)) },
  ];
  return groups
    .map(({ title, rows }) => ({
      title,
      rows: rows.filter(row => row.before !== undefined || row.after !== undefined),
    }))
    .filter(({ rows }) => rows.length > 0);
}

function rowsOf(
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): ConfigRow[] {
  return [...new Set([...before.keys(), ...after.keys()])].map(name => ({
    name,
    before: before.get(name),
    after: after.get(name),
  }));
}

function runtimeIn(config: JsonObject): JsonObject {
  return asObject(config[memberName(config, 'config')]) ?? {};
}

function memberOf(runtime: JsonObject, member: string): unknown {
  return runtime[memberName(runtime, member)];
}

function environmentOf(runtime: JsonObject): ReadonlyMap<string, string> {
  const entries = memberOf(runtime, 'Env');
  return new Map(
    (Array.isArray(entries) ? entries : [])
      .filter(entry => typeof entry === 'string')
      .map(entry => [envName(entry), entry.slice(envName(entry).length + 1)]),
  );
}

function labelsOf(runtime: JsonObject): ReadonlyMap<string, string> {
  const labels = asObject(memberOf(runtime, 'Labels')) ?? {};
  return new Map(Object.entries(labels).map(([name, value]) => [name, textOf(value) ?? '']));
}

/** Returns a value as one line: words as a JSON array, so that their ends can be seen. */
function textOf(value: unknown): string | undefined {
  if (value === undefined || value === null || value === '') return undefined;
  if (typeof value === 'string') return value;
  const names = asObject(value);
  if (names) return Object.keys(names).join(', ') || undefined;
  if (Array.isArray(value) && value.length === 0) return undefined;
  return JSON.stringify(value);
}
