import {
  chmod,
  copyFile,
  lstat,
  mkdir,
  open,
  readFile,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type SifContents, sifHead, squashfsOffset } from '../../src/images/sif/format/sif-file.ts';
import { type KeptScripts, postEnvironmentPath } from '../../src/images/sif/layers/kept-scripts.ts';
import { imageDefinition } from '../../src/images/sif/runtime/definition-runtime.ts';
import {
  inspectMetadata,
  type RuntimeInput,
  runtimeFiles,
} from '../../src/images/sif/runtime/runtime-files.ts';
import { type Apptainer, apptainerTool } from '../world/apptainer.ts';
import { type BusyboxArchitecture, requireBusybox } from '../world/tools.ts';

/** The description of an image. */
export interface Described {
  /** The `config` member of the image config. */
  readonly config?: RuntimeInput['config'];
  readonly definition?: RuntimeInput['definition'];
  readonly architecture?: BusyboxArchitecture;
}

export interface SmallImage extends Described {
  /** Without it, busybox is there alone, without links for its commands. */
  readonly shell?: boolean;
  /** More files, by their path. */
  readonly files?: Readonly<Record<string, string>>;
}

const applets = ['sh', 'cat', 'echo', 'env', 'id', 'printf', 'pwd', 'sleep', 'test', 'uname'];
const createdAt = Date.UTC(2024, 1, 29, 12);

/** Makes a SIF file of a small image. Returns its path. */
export async function assembleSif(
  apptainer: Apptainer,
  name: string,
  image: SmallImage,
): Promise<string> {
  const { architecture = 'amd64', shell = true, files = {} } = image;
  const tree = apptainer.join(`${name}.tree`);
  await mkdir(join(tree, 'bin'), { recursive: true });
  await copyFile(requireBusybox(architecture), join(tree, 'bin/busybox'));
  if (shell) for (const applet of applets) await symlink('busybox', join(tree, 'bin', applet));
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(tree, path)), { recursive: true });
    await writeFile(join(tree, path), text, { mode: 0o755 });
  }
  return assembleTree(apptainer, name, tree, image);
}

/** Adds the runtime files to a directory tree, and makes a SIF file of it. Returns its path. */
export async function assembleTree(
  apptainer: Apptainer,
  name: string,
  tree: string,
  {
    config = {},
    architecture = 'amd64',
    definition = imageDefinition('registry.test/image:1'),
  }: Described,
): Promise<string> {
  const scripts = await scriptsIn(tree);
  const input: RuntimeInput = { config, architecture, createdAt, definition, scripts };
  await addRuntime(tree, input);
  const sif = apptainer.join(`${name}.sif`);
  await squash(apptainer, tree, sif, {
    definition: definition.text,
    inspectMetadata: inspectMetadata(input),
    ociConfig: config,
    ...{ architecture, createdAt, id: Buffer.alloc(16, name) },
  });
  return sif;
}

/** The files that the build of a definition file has left; the labels are removed. */
async function scriptsIn(tree: string): Promise<KeptScripts> {
  const text = (path: string) => readFile(join(tree, path), 'utf8').catch(() => undefined);
  const scripts = {
    postEnvironment: await text(postEnvironmentPath),
    environment: await text('.singularity.d/env/90-environment.sh'),
    labels: await text('.build.labels'),
  };
  await rm(join(tree, '.build.labels'), { force: true });
  return scripts;
}

async function addRuntime(tree: string, input: RuntimeInput): Promise<void> {
  for (const { path, kind, mode, content, target } of runtimeFiles(input)) {
    const place = join(tree, path);
    if (kind === 'directory') await mkdir(place, { recursive: true, mode });
    else if (kind === 'symlink') {
      if (!(await lstat(place).catch(() => undefined))) await symlink(target ?? '', place);
    } else {
      await writeFile(place, content ?? '');
      await chmod(place, mode);
    }
  }
}

async function squash(
  apptainer: Apptainer,
  tree: string,
  sif: string,
  contents: SifContents,
): Promise<void> {
  const offset = squashfsOffset(contents);
  const { code, stderr } = await apptainer.runProgram([
    ...[apptainerTool('mksquashfs'), tree, sif, '-offset', String(offset), '-all-root'],
    ...['-noappend', '-comp', 'gzip', '-no-progress', '-quiet'],
  ]);
  if (code !== 0) throw new Error(stderr);
  const file = await open(sif, 'r+');
  try {
    const { size } = await file.stat();
    const head = sifHead(contents, size - offset);
    await file.write(head, 0, head.length, 0);
  } finally {
    await file.close();
  }
}
