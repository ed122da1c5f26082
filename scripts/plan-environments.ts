/**
 * Asks a server what it would do with many environment files: `node scripts/plan-environments.ts FOLDER`. Sends each file as a dry run,
 * so nothing is made, and prints how many are planned without a builder, and why the others are not. `--server URL` names the server, and
 * `--base IMAGE` the base image. `--only-pip` leaves out the packages of Conda but Python, for a server that reaches no channel.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { parse, stringify } from 'yaml';

/** What became of a file. */
type Outcome = 'planned' | 'builder' | 'refused';

interface Planned {
  readonly file: string;
  readonly outcome: Outcome;
  /** Why it is not planned without a builder. */
  readonly reason: string;
}

const timeoutMs = 300_000;
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    server: { type: 'string', default: process.env.SLUICE_URL ?? 'http://127.0.0.1:9090' },
    base: { type: 'string' },
    'only-pip': { type: 'boolean', default: false },
  },
});
const [folder] = positionals;
if (folder === undefined) {
  console.error('Name the folder with the environment files: plan-environments.ts FOLDER');
  process.exit(2);
}

const found: Planned[] = [];
for (const file of (await readdir(folder)).filter(name => /\.ya?ml$/.test(name)).sort()) {
  const text = await readFile(join(folder, file), 'utf8');
  const planned = { file, ...(await plan(values['only-pip'] ? withoutConda(text) : text)) };
  found.push(planned);
  console.log(`${planned.outcome.padEnd(8)} ${file}${planned.reason && `: ${planned.reason}`}`);
}
const counted = (['planned', 'builder', 'refused'] as const).map(outcome => {
  const number = found.filter(one => one.outcome === outcome).length;
  return `${number} ${outcome}`;
});
console.log(`\n${found.length} files: ${counted.join(', ')}`);
const groups = Map.groupBy(
  found.filter(({ reason }) => reason !== ''),
  one => `${one.outcome}: ${kindOf(one.reason)}`,
);
for (const [kind, files] of [...groups].sort((one, other) => other[1].length - one[1].length)) {
  console.log(
    `${String(files.length).padStart(4)} ${kind}: ${files.map(it => it.file).join(', ')}`,
  );
}

async function plan(text: string): Promise<Omit<Planned, 'file'>> {
  const packages = {
    type: 'CONDA',
    environment: Buffer.from(text).toString('base64'),
    ...(values.base === undefined ? {} : { condaOpts: { baseImage: values.base } }),
  };
  try {
    const response = await fetch(`${values.server}/v1alpha2/container`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ packages, dryRun: true }),
      signal: AbortSignal.timeout(timeoutMs),
    });
    const answer = (await response.json()) as {
      readonly message?: string;
      readonly reason?: string;
      readonly solution?: { readonly builderReason?: string; readonly platforms?: unknown[] };
      readonly containerFile?: string;
    };
    if (response.status !== 200)
      return { outcome: 'refused', reason: withoutId(answer.message ?? '') };
    const { solution, reason } = answer;
    const builderReason = solution?.builderReason ?? reason;
    const isPlanned = builderReason === undefined && (solution?.platforms?.length ?? 0) > 0;
    if (isPlanned) return { outcome: 'planned', reason: '' };
    return { outcome: 'builder', reason: builderReason ?? 'no packages are listed' };
  } catch (error) {
    return { outcome: 'refused', reason: (error as Error).message };
  }
}

/** Returns an environment with its packages of pip and its Python alone. */
function withoutConda(text: string): string {
  const document = parse(text) as { dependencies?: unknown[] };
  const dependencies = (document.dependencies ?? []).filter(
    one => typeof one !== 'string' || /^(?:\S+::)?python(?:$|[^\w.-])/.test(one),
  );
  return stringify({ ...document, dependencies });
}

/** Returns a reason without the names and versions in it, to count those of one kind. */
function kindOf(reason: string): string {
  const kinds: readonly (readonly [RegExp, string])[] = [
    [/\bsource distribution/i, 'source distributions'],
    [/a file that the request does not have/, 'files that the request does not have'],
    [/\brepository\b/i, 'repositories'],
    [/pip option/i, 'options of pip'],
    [/path or address/i, 'paths and addresses'],
    [/packages are from Conda/, 'conflicts of pip with Conda'],
    [
      /not found in the package registry|there is no version of/,
      'packages that the index does not have',
    ],
    [/Python packages have no solution/, 'requirements of pip without a solution'],
    [/index of Python packages/i, 'indexes that do not answer'],
  ];
  return kinds.find(([pattern]) => pattern.test(reason))?.[1] ?? reason.slice(0, 80);
}

function withoutId(message: string): string {
  return message.replace(/ - Error ID: \w{1,40}$/, '');
}
