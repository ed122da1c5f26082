import { createReadStream } from 'node:fs';
import { type ExportedFile, exportedFiles } from '../../../archives/only-file.ts';
import {
  type FileTree,
  memoryTree,
  type SourceRule,
  type TreeEntry,
} from '../../../buildkit/index.ts';
import { Fault } from '../../../foundation/fault.ts';
import { cloneAddress, type GitCommit } from '../../../pypi/requirements/index.ts';
import type { ContentStore, Ingest } from '../../../storage/content/index.ts';
import { noSources } from '../closed-sources.ts';
import {
  type GeneratedBuildDeps,
  type GeneratedRun,
  generatedBuild,
  generatedFault,
} from '../generated-build.ts';
import type { CommitParts } from './commit-parts.ts';
import {
  historyName,
  metadataName,
  missingName,
  problemName,
  script,
  scriptName,
  tagsName,
  wheelDockerfile,
} from './wheel-recipe.ts';

/** A build of one wheel. */
export interface WheelRun extends GeneratedRun {
  /** What is built, for messages: `docopt 0.6.2`. */
  readonly title: string;
  /** The source distribution, and the wheels that its build may use. */
  readonly files: readonly GivenFile[];
  /** What is built instead of a source distribution. */
  readonly parts?: CommitParts | undefined;
}

interface GivenFile {
  readonly fileName: string;
  readonly path: string;
  /** Bytes. */
  readonly size: number;
}

/** The end of a build: a wheel whose bytes are written, or all that it requires, where some of that was not given. */
export type WheelResult =
  | { readonly fileName: string; readonly metadata: string; readonly bytes: Ingest }
  | { readonly missing: readonly string[] };

/** Has BuildKit build a wheel. Throws a `Fault` with the last lines of a build that fails. */
export type RunWheelBuild = (run: WheelRun) => Promise<WheelResult>;

export interface RunWheelBuildDeps extends GeneratedBuildDeps {
  readonly content: Pick<ContentStore, 'ingest'>;
  /** Bytes of a wheel. */
  readonly maxBytes: number;
}

export function createRunWheelBuild(deps: RunWheelBuildDeps): RunWheelBuild {
  return async run => {
    const { title, files, parts } = run;
    const output = receiveOutput(title, deps);
    try {
      await generatedBuild(deps, run, {
        dockerfile: wheelDockerfile(parts),
        context: contextOf(files, parts?.history),
        sourceRules: rulesFor(parts),
        // Also for what a base image adds with ONBUILD.
        network: 'none',
        exporters: [{ type: 'tar', sink: output.open }],
      });
      return output.result();
    } catch (error) {
      await output.drop();
      throw generatedFault(error, `the build of ${title}`);
    }
  };
}

/** The build fetches the repository and its submodules, and nothing else. */
function rulesFor(parts: CommitParts | undefined): SourceRule[] {
  if (parts === undefined) return [noSources];
  const allowed = ({ url, id }: Pick<GitCommit, 'url' | 'id'>): SourceRule => {
    const { host, pathname } = new URL(cloneAddress({ url }));
    const place = `${host}${pathname}`.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    return { action: 'allow', pattern: `^git://${place}#${id}$` };
  };
  return [noSources, ...[parts.commit, ...parts.submodules].map(allowed)];
}

/** Returns the build context: all files in one directory. */
function contextOf(
  given: readonly GivenFile[],
  history: CommitParts['history'] | undefined,
): FileTree {
  const own = memoryTree({ [scriptName]: script, ...historyFiles(history) });
  const pack = history?.pack;
  const files = [...given, ...(pack ? [{ fileName: historyName, ...pack }] : [])];
  const entries = files.map(
    ({ fileName: name, size }): TreeEntry => ({
      name,
      kind: 'file',
      mode: 0o644,
      size,
      mtimeMs: 0,
    }),
  );
  return {
    list: async directory => (directory === '' ? [...(await own.list('')), ...entries] : []),
    read(path) {
      const file = files.find(({ fileName }) => fileName === path);
      return file ? createReadStream(file.path, { highWaterMark: 256 * 1024 }) : own.read(path);
    },
  };
}

function historyFiles(history: CommitParts['history'] | undefined): Record<string, string> {
  if (history === undefined) return {};
  const lines = history.tags.map(({ id, name }) => `${id} ${name}\n`).sort();
  return {
    [tagsName]: lines.join(''),
    ...(history.problem === undefined ? {} : { [problemName]: history.problem }),
  };
}

const mostTextBytes = 256 * 1024;
const mostFiles = 5;

/** Receives the files of a build: its wheel becomes content, all else is short. */
function receiveOutput(
  title: string,
  { content, maxBytes }: Pick<RunWheelBuildDeps, 'content' | 'maxBytes'>,
) {
  let wheel: { fileName: string; bytes: Ingest } | undefined;
  let isDropped = false;
  const texts = new Map<string, string>();
  const unusable = (what: string) =>
    new Fault('bad-request', `The build of ${title} ${what}`, { phase: 'build' });

  const receive = async ({ name: fileName, size, body }: ExportedFile): Promise<void> => {
    if (fileName === metadataName || fileName === missingName) {
      if (size > mostTextBytes) throw unusable(`has written a ${fileName} of ${size} bytes`);
      const parts: Uint8Array[] = [];
      for await (const part of body) parts.push(part);
      texts.set(fileName, Buffer.concat(parts).toString('utf8'));
      return;
    }
    if (wheel !== undefined || !fileName.endsWith('.whl')) {
      throw unusable(`has written more than a wheel: ${JSON.stringify(fileName.slice(0, 200))}`);
    }
    if (size > maxBytes) {
      throw unusable(
        `has made a wheel of ${size} bytes, more than the ${maxBytes} that are allowed for a package: ask the operator to raise conda.packages.maxArchiveBytes`,
      );
    }
    const bytes = await content.ingest('sha256', size);
    if (isDropped) return bytes.abort();
    wheel = { fileName, bytes };
    for await (const part of body) await wheel.bytes.write(part);
  };

  return {
    open: () => exportedFiles(receive, mostFiles),

    result(): WheelResult {
      const missing = texts.get(missingName);
      if (wheel === undefined && missing !== undefined) return { missing: namesIn(missing) };
      const metadata = texts.get(metadataName);
      if (wheel === undefined || metadata === undefined) throw unusable('has made no wheel');
      return { ...wheel, metadata };
    },

    async drop() {
      isDropped = true;
      await wheel?.bytes.abort();
      wheel = undefined;
    },
  };
}

const mostNames = 100;

function namesIn(text: string): readonly string[] {
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch {
    return [];
  }
  if (!Array.isArray(list)) return [];
  return list.filter(name => typeof name === 'string' && name.length <= 500).slice(0, mostNames);
}
