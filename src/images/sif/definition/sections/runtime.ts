import type { DefinitionRuntime } from '../definition-runtime.ts';
import type { DefinitionStage } from '../parser.ts';
import { scriptOf } from '../sections.ts';
import { appRuntimes } from './apps.ts';
import { labelsOf } from './label-sections.ts';
import { scriptFile } from './script-file.ts';

/** Returns the runtime data that a stage specifies, in the form that `apptainer build` writes. */
export function runtimeOf(stage: DefinitionStage, text: string): DefinitionRuntime {
  const headers = [...stage.headers].map(([name, { value }]) => [name, value]);
  const apps = appRuntimes(stage);
  const script = (name: string) => {
    const found = scriptOf(stage, name);
    return found && scriptFile(found);
  };
  return {
    text,
    headers: Object.fromEntries(headers),
    labels: labelsOf(stage, 'labels'),
    environment: scriptOf(stage, 'environment')?.text,
    help: helpOf(stage),
    runscript: script('runscript'),
    startscript: script('startscript'),
    test: script('test'),
    ...(apps === undefined ? {} : { apps }),
  };
}

function helpOf(stage: DefinitionStage): string | undefined {
  const help = scriptOf(stage, 'help');
  return help && `${help.text}\n`;
}
