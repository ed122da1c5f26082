import { appBase, appExports, appSelection } from '../../runtime/app-scripts.ts';
import type { AppRuntime } from '../../runtime/definition-runtime.ts';
import type { Grow } from '../arguments.ts';
import { type DefinitionStage, refuseLine, type Section, shownText } from '../parser.ts';
import { labelsOf, type Script, scriptFile, scriptOf, textOf, writeFile } from '../sections.ts';
import { type FileCopies, fileCopies } from './files.ts';

/** Instructions for the `%app...` sections of a stage. */
export interface AppInstructions {
  /** A stage that contains only the scripts of the apps. */
  readonly stage: readonly string[];
  /** Copies that stage to the image. */
  readonly copy: string;
  readonly files: readonly FileCopies[];
  /** Shell code that runs after `%post`. */
  readonly install: string;
}

const maxApps = 100;

/**
 * Returns the instructions for the apps of a stage, or undefined if it has none. Apps use the paths of the
 * Scientific Filesystem. Throws a `Fault` with the line for an instruction that cannot be translated.
 * Source: Apptainer user guide, SCIF apps.
 */
export function appInstructions(
  stage: DefinitionStage,
  name: string,
  grow: Grow,
): AppInstructions | undefined {
  const apps = appsOf(stage);
  if (apps.size === 0) return undefined;
  const runtimes = [...apps].map(([app, sections]) => [app, appRuntime(app, sections)] as const);
  const exported = runtimes.map(([app, runtime]) => appExports(app, runtime)).join('');
  const files = runtimes.flatMap(([app, runtime]) => filesOf(app, runtime));
  return {
    stage: [
      `FROM scratch AS ${name}`,
      ...[...apps.keys()].flatMap(directoriesOf),
      ...files,
      writeFile('/.singularity.d/env/94-appsbase.sh', exported, '755'),
      writeFile('/.singularity.d/env/95-apps.sh', appSelection, '755'),
    ],
    copy: `COPY --from=${name} ["/","/"]`,
    files: [...apps].flatMap(([app, sections]) =>
      sections
        .filter(section => section.name === 'appfiles')
        .map(section =>
          fileCopies({ ...section, argument: '' }, () => undefined, grow, rootOf(app)),
        ),
    ),
    install: [...apps].map(([app, sections]) => installScript(app, sections)).join(''),
  };
}

/** Returns the runtime data of the apps of a stage, by name. Returns undefined if it has none. */
export function appRuntimes(stage: DefinitionStage): Record<string, AppRuntime> | undefined {
  const apps = appsOf(stage);
  if (apps.size === 0) return undefined;
  return Object.fromEntries([...apps].map(([app, sections]) => [app, appRuntime(app, sections)]));
}

/** Returns the sections of each app, in the order in which the stage names the apps. */
function appsOf({ sections }: DefinitionStage): ReadonlyMap<string, readonly Section[]> {
  const apps = new Map<string, Section[]>();
  for (const section of sections) {
    if (!section.name.startsWith('app')) continue;
    const [app = ''] = section.argument.split(/\s+/);
    if (!/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$/.test(app)) {
      refuseLine(section.line, `${shownText(`%${section.name} ${app}`)} does not name an app`);
    }
    const known = apps.get(app);
    if (known) known.push(section);
    else apps.set(app, [section]);
  }
  if (apps.size > maxApps) refuseLine(sections[0]?.line ?? 1, `it has more than ${maxApps} apps`);
  return apps;
}

function appRuntime(app: string, sections: readonly Section[]): AppRuntime {
  const script = (name: string): Script | undefined => {
    const found = scriptOf({ sections }, name);
    return found && { ...found, argument: '' };
  };
  const file = (name: string) => {
    const found = script(name);
    return found && scriptFile(found);
  };
  return {
    labels: { SCIF_APP_NAME: app, ...labelsOf({ sections }, 'applabels') },
    environment: script('appenv')?.text,
    runscript: file('apprun'),
    startscript: file('appstart'),
    test: file('apptest'),
    help: script('apphelp')?.text,
  };
}

function directoriesOf(app: string): readonly string[] {
  const root = rootOf(app);
  const data = `/scif/data/${app}`;
  return [`${root}/bin`, `${root}/lib`, `${data}/input`, `${data}/output`].map(
    path => `WORKDIR ${path}`,
  );
}

function filesOf(app: string, runtime: AppRuntime): readonly string[] {
  const meta = `${rootOf(app)}/scif`;
  const { environment, runscript, startscript, test, help, labels } = runtime;
  const programs = {
    'env/01-base.sh': appBase(app),
    'env/90-environment.sh': environment,
    runscript,
    startscript,
    test,
  };
  const texts = { 'runscript.help': help, 'labels.json': JSON.stringify(labels, undefined, '\t') };
  return [
    ...Object.entries(programs).map(([path, text]) => [path, text, '755'] as const),
    ...Object.entries(texts).map(([path, text]) => [path, text, undefined] as const),
  ].flatMap(([path, text, mode]) =>
    text === undefined ? [] : [writeFile(`${meta}/${path}`, text, mode)],
  );
}

function installScript(app: string, sections: readonly Section[]): string {
  const root = rootOf(app);
  const text = sections
    .filter(({ name }) => name === 'appinstall')
    .map(textOf)
    .join('');
  return `\ncd /\n. ${root}/scif/env/01-base.sh\n\ncd ${root}\n${text}\ncd /\n`;
}

function rootOf(app: string): string {
  return `/scif/apps/${app}`;
}
