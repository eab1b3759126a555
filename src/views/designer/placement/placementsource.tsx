import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';

import type { ModelDesign, ModelSource } from '../../../api/schema';
import type { KernelVariable } from '../../../model/kernels';
import { SmallButton } from '../../controls';
import { Work } from './placementhooks';
import type { PlacementServices } from './placementservices';

/** The origin of a model, as text. */
export function sourceText(source: ModelSource, trans: TranslationBundle): string {
  switch (source.kind) {
    case 'kernel':
      return trans.__('%1 of %2', source.variable, source.path);
    case 'file':
      return source.path;
    default:
      return trans.__('described elsewhere');
  }
}

/** Read a model from its source; `chosen`: the user has just chosen it, rather than reading it again. */
export async function readModel(
  source: ModelSource,
  services: PlacementServices,
  signal: AbortSignal,
  chosen = false
): Promise<ModelDesign> {
  const graph =
    source.kind === 'kernel'
      ? await services.describeVariable({ path: source.path, name: source.variable }, signal, chosen)
      : await services.describeFile(source.path, signal);
  return { source, graph };
}

/** Choose the model: a variable of a running kernel, or a file. */
export function SourcePicker(props: {
  services: PlacementServices;
  source: ModelSource | null;
  work: Work;
  onModel: (model: ModelDesign) => void;
  onClose: (() => void) | null;
  trans: TranslationBundle;
}): React.ReactElement {
  const { services, source, work, onModel, onClose, trans } = props;
  const [variables, setVariables] = React.useState<readonly KernelVariable[] | null>(null);
  const [files, setFiles] = React.useState<readonly string[]>([]);
  const [path, setPath] = React.useState(source?.kind === 'file' ? source.path : '');
  const [looked, lookAgain] = React.useReducer((count: number) => count + 1, 0);
  const list = React.useId();
  React.useEffect(() => {
    const ended = new AbortController();
    setVariables(null);
    services.kernelVariables(ended.signal).then(setVariables, () => !ended.signal.aborted && setVariables([]));
    services.modelFiles().then(
      found => !ended.signal.aborted && setFiles(found),
      () => undefined // the path can be typed
    );
    return () => ended.abort();
  }, [services, looked]);
  const read = (chosen: ModelSource) =>
    work.start(trans.__('Reading the model'), async signal => onModel(await readModel(chosen, services, signal, true)));
  return (
    <section className="jp-dtf-source" aria-label={trans.__('Where the model comes from')}>
      <h3>{trans.__('From a kernel')}</h3>
      {variables === null && (
        <p className="jp-dtf-faint" role="status">
          {trans.__('Querying the kernels…')}
        </p>
      )}
      {variables?.length === 0 && (
        <p className="jp-dtf-faint">
          {trans.__('No running kernel has a Keras model. Run the notebook cells that create one, then check again.')}
        </p>
      )}
      <ul>
        {variables?.map(variable => (
          <li key={`${variable.path} ${variable.name}`}>
            <SmallButton
              disabled={work.title !== ''}
              onClick={() => read({ kind: 'kernel', path: variable.path, variable: variable.name })}
            >
              {variable.kind === 'function' ? `${variable.name}()` : variable.name}
            </SmallButton>
            <span className="jp-dtf-faint">
              {variable.kind === 'function'
                ? trans.__('a function, in %1', variable.path)
                : trans.__('%1, %2 parameters, in %3', variable.type, variable.parameters, variable.path)}
            </span>
          </li>
        ))}
      </ul>
      <SmallButton onClick={lookAgain}>{trans.__('Check again')}</SmallButton>
      <h3>{trans.__('From a file')}</h3>
      <form
        onSubmit={event => {
          event.preventDefault();
          read({ kind: 'file', path: path.trim(), variable: '' });
        }}
      >
        <input
          className="jp-dtf-search"
          list={list}
          value={path}
          placeholder="model.keras"
          aria-label={trans.__('Path of a .keras file or a SavedModel, relative to the folder that the server shows')}
          onChange={event => setPath(event.target.value)}
        />
        <datalist id={list}>
          {files.map(file => (
            <option key={file} value={file} />
          ))}
        </datalist>
        <button type="submit" className="jp-dtf-button" disabled={path.trim() === '' || work.title !== ''}>
          {trans.__('Read')}
        </button>
      </form>
      {onClose && (
        <p>
          <SmallButton onClick={onClose}>{trans.__('Close')}</SmallButton>
        </p>
      )}
    </section>
  );
}
