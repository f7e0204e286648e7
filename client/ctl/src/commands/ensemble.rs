//! Commands about the ensemble: its configuration.

use std::fs;
use std::path::Path;

use serde_json::json;
use zoolet_client::{ConfigChange, Stat, WatcherType};
use zoolet_survey::members::members;

use super::watch::Watch;
use crate::args::{Config, Reconfig};
use crate::context::Context;
use crate::error::{CtlError, Exit};
use crate::format::{data_text, stat_json, stat_text};

/// Where the configuration is, for messages.
const CONFIG_PATH: &str = "/zookeeper/config";

/// `config [-c] [-w] [-s]`.
pub(crate) async fn config(
    arguments: &Config,
    context: &Context,
) -> Result<Option<Watch>, CtlError> {
    let connection = &context.connection;
    let (data, stat, watch) = if arguments.watch {
        let read = connection.ask(CONFIG_PATH, connection.client.config_watched()).await?;
        (read.0, read.1, Some(Watch::once(CONFIG_PATH, WatcherType::Data, read.2)))
    } else {
        let (data, stat) = connection.ask(CONFIG_PATH, connection.client.config()).await?;
        (data, stat, None)
    };
    let text = data_text(&data);
    if arguments.connect {
        let connect = connect_string(&text);
        context.output.result(|| connect.clone(), || json!({ "connect": connect }))?;
        let absent = members(&text).into_iter().filter(|member| member.client.is_none());
        let absent: Vec<String> = absent.map(|member| member.id.to_string()).collect();
        if !absent.is_empty() {
            context.output.note(&format!(
                "left out, because the configuration has no client address of them: server {}",
                absent.join(", ")
            ));
        }
    } else {
        print_config(&text, &stat, arguments.stat, context)?;
    }
    Ok(watch)
}

/// `reconfig [-s] [-v VERSION] -add … | -remove … | -members … | -file …`.
pub(crate) async fn reconfig(arguments: &Reconfig, context: &Context) -> Result<(), CtlError> {
    let members = match (&arguments.members, &arguments.file) {
        (Some(members), _) => Some(members.clone()),
        (None, Some(file)) => Some(members_of(file)?),
        (None, None) => None,
    };
    let (joining, leaving) = (arguments.add.join(","), arguments.remove.join(","));
    let change = match &members {
        Some(members) => ConfigChange::All(members),
        None if joining.is_empty() && leaving.is_empty() => {
            let message = "reconfig needs --add, --remove, --members or --file";
            return Err(CtlError::new(Exit::Usage, message));
        }
        None => ConfigChange::Some { joining: &joining, leaving: &leaving },
    };
    let connection = &context.connection;
    let call = connection.client.reconfig(change, arguments.version);
    let (data, stat) = connection.ask(CONFIG_PATH, call).await?;
    print_config(&data_text(&data), &stat, arguments.stat, context)
}

fn print_config(
    text: &str,
    stat: &Stat,
    with_stat: bool,
    context: &Context,
) -> Result<(), CtlError> {
    let servers: Vec<&str> = text.lines().filter(|line| line.starts_with("server.")).collect();
    let version = text.lines().find_map(|line| line.strip_prefix("version="));
    // The text has it without what says that it is hexadecimal.
    let version = version.map(|version| format!("0x{version}"));
    let json = || json!({ "servers": servers, "version": version, "stat": stat_json(stat) });
    let lines = || if with_stat { format!("{text}\n{}", stat_text(stat)) } else { text.to_owned() };
    context.output.result(lines, json)
}

/// The client addresses of a configuration, as a connect string.
fn connect_string(config: &str) -> String {
    members(config).into_iter().filter_map(|member| member.client).collect::<Vec<_>>().join(",")
}

/// The servers of a configuration file.
fn members_of(file: &Path) -> Result<String, CtlError> {
    let text = fs::read_to_string(file)
        .map_err(|error| CtlError::new(Exit::Io, format!("{}: {error}", file.display())))?;
    let servers: Vec<&str> =
        text.lines().map(str::trim).filter(|line| line.starts_with("server.")).collect();
    if servers.is_empty() {
        let message = format!("{}: no line server.N=…", file.display());
        return Err(CtlError::new(Exit::InvalidInput, message));
    }
    Ok(servers.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connect_string_is_the_client_addresses() {
        let config = "server.1=a:2888:3888:participant;0.0.0.0:2181\n\
                      server.2=b:2888:3888:participant;2182\n\
                      server.3=[::1]:2888:3888:observer;2183\nserver.4=c:1:2\nversion=100000000";
        assert_eq!(connect_string(config), "0.0.0.0:2181,b:2182,[::1]:2183");
    }
}
