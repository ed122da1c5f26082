import { type Command, type CommandGroup, type CommandNode, none } from '../command/command.ts';
import type { Place } from './completion-script.ts';

type Script = (places: readonly Place[]) => string;

/** Loads the declarations of all commands. */
type LoadCommands = () => Promise<Readonly<Record<string, CommandNode>>>;

const scripts: Readonly<Record<string, () => Promise<Script>>> = {
  bash: async () => (await import('./completion-script.ts')).bashScript,
  zsh: async () => (await import('./completion-script.ts')).zshScript,
  fish: async () => (await import('./completion-script.ts')).fishScript,
};

/** `sluice completion`: prints scripts that complete commands in a shell. */
export function completionCommand(loadCommands: LoadCommands): CommandGroup {
  const actions = Object.entries(scripts).map(([shell, load]) => [
    shell,
    printing(shell, load, loadCommands),
  ]);
  return {
    summary: 'Print a script that completes commands, options and values in a shell',
    actions: Object.fromEntries(actions),
  };
}

const startFiles: Readonly<Record<string, string>> = {
  bash: 'source <(sluice completion bash) in ~/.bashrc',
  zsh: 'source <(sluice completion zsh) in ~/.zshrc, after compinit',
  fish: 'sluice completion fish | source in ~/.config/fish/config.fish',
};

function printing(shell: string, load: () => Promise<Script>, loadCommands: LoadCommands): Command {
  return {
    summary: `Print the script for ${shell}. To use it, write ${startFiles[shell]}`,
    usage: [''],
    options: {},
    async run(_values, args) {
      none(args);
      const [{ placesOf }, script] = await Promise.all([import('./completion-script.ts'), load()]);
      process.stdout.write(script(placesOf(await loadCommands())));
      return 0;
    },
  };
}
