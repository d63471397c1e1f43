// SPDX-License-Identifier: Apache-2.0

// The keeper as a process, with an adapter that does what a test wants (test_adapter.cpp).
#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/base/unique_fd.hpp"
#include "tests/folder.hpp"

namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class KeeperTest : public testing::Test {
 protected:
  /// Starts a keeper. Its output is read by wait() or read_line().
  void start(std::vector<std::string> arguments) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    output_ = softhca::UniqueFd(ends[0]);
    const softhca::UniqueFd theirs(ends[1]);
    arguments.insert(arguments.begin(), KEEPER);
    process_ = ::fork();
    ASSERT_GE(process_, 0);
    if (process_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::dup2(theirs.get(), STDOUT_FILENO);
    ::dup2(theirs.get(), STDERR_FILENO);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    ::execv(KEEPER, argv.data());
    ::_exit(127);
  }
  /// Reads until the keeper and its adapter have ended. Returns the exit code, or 128 and the
  /// signal.
  int wait() {
    std::array<char, 4096> part;
    for (ssize_t got; (got = ::read(output_.get(), part.data(), part.size())) > 0;)
      said_.append(part.data(), static_cast<std::size_t>(got));
    int status = 0;
    EXPECT_EQ(::waitpid(process_, &status, 0), process_);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  /// Reads until the adapter has said the line.
  void await(const std::string& line) {
    char byte = 0;
    while (said_.find(line + "\n") == std::string::npos && ::read(output_.get(), &byte, 1) == 1)
      said_.push_back(byte);
    ASSERT_THAT(said_, HasSubstr(line));
  }
  int run(std::vector<std::string> arguments) {
    start(std::move(arguments));
    return wait();
  }

  pid_t process_ = -1;
  softhca::UniqueFd output_;
  std::string said_;
};

TEST_F(KeeperTest, PassesOnHowAnAdapterEndsThatHasNotServed) {
  EXPECT_EQ(run({"usage"}), 2);
  EXPECT_EQ(said_, "start\n");
}

TEST_F(KeeperTest, EndsWithAnAdapterThatEndsOfItsOwnWill) {
  EXPECT_EQ(run({"end"}), 0);
  EXPECT_EQ(said_, "start\n");
}

TEST_F(KeeperTest, GivesTheNextAdapterWhatACrashedOneLeft) {
  EXPECT_EQ(run({"crash"}), 0);
  EXPECT_THAT(said_, AllOf(HasSubstr("has ended by Killed (signal 9): starting another one"),
                           EndsWith("crash\nserved\n")));
}

TEST_F(KeeperTest, TakesAFailureOfAServingAdapterForACrash) {
  EXPECT_EQ(run({"fail"}), 0);
  EXPECT_THAT(said_, AllOf(HasSubstr("exit code 7"), EndsWith("crash\nserved\n")));
}

TEST_F(KeeperTest, ReplacesAnAdapterThatStandsStill) {
  for (const char* const how : {"stop", "spin", "block"}) {
    said_.clear();
    EXPECT_EQ(run({how}), 0) << how;
    EXPECT_THAT(said_, AllOf(HasSubstr("hangs"), EndsWith("hang\nserved\n"))) << how;
  }
}

TEST_F(KeeperTest, LeavesAnAdapterAloneThatSleeps) {
  EXPECT_EQ(run({"sleep"}), 0);
  EXPECT_EQ(said_, "start\n");
}

TEST_F(KeeperTest, GivesUpAfterThreeCrashes) {
  EXPECT_EQ(run({"always"}), 128 + SIGKILL);
  EXPECT_THAT(
      said_, AllOf(HasSubstr("crash\n"), HasSubstr("3 times in 30 s, at last by Killed (signal 9)"),
                   EndsWith("giving up\n")));
  said_.clear();
  EXPECT_EQ(run({"always-stop"}), 128 + SIGKILL);
  EXPECT_THAT(said_, HasSubstr("3 times in 30 s, at last as it made no turns: giving up"));
}

TEST_F(KeeperTest, UpgradesToALibraryThatFits) {
  EXPECT_EQ(run({"upgrade"}), 0);
  EXPECT_EQ(said_, "start\nupgrade\nserved\n");
}

TEST_F(KeeperTest, UpgradesAtSigusr1) {
  EXPECT_EQ(run({"upgrade-by-signal"}), 0);
  EXPECT_EQ(said_, "start\nupgrade\nserved\n");
}

TEST_F(KeeperTest, SaysThatAnotherUpgradeIsInProgress) {
  EXPECT_EQ(run({"upgrade-by-signal", "twice"}), 0);
  EXPECT_THAT(said_, HasSubstr("no upgrade: another upgrade is in progress\n"));
}

TEST_F(KeeperTest, UpgradesToTheInstalledLibrary_AndGoesOnWithTheLastOne) {
  const softhca::control::Folder folder;
  const std::string link = folder.path() + "/other.so";
  ASSERT_EQ(::symlink(OTHER, link.c_str()), 0);
  EXPECT_EQ(run({"libraries", link}), 0);
  EXPECT_THAT(said_, AllOf(StartsWith("start\nupgrade of the other library\n"),
                           EndsWith("crash of the other library\nupgrade\n")));
}

TEST_F(KeeperTest, RefusesAnUpgradeWithoutLibrary) {
  EXPECT_EQ(run({"upgrade", "/nowhere/library.so"}), 0);
  EXPECT_EQ(said_, "start\norder: /nowhere/library.so: No such file or directory\n");
}

TEST_F(KeeperTest, RefusesALibraryThatIsNoFile) {
  const softhca::control::Folder folder;
  const std::string fifo = folder.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string& path : {fifo, folder.path()}) {
    said_.clear();
    EXPECT_EQ(run({"upgrade", path}), 0);
    EXPECT_EQ(said_, "start\norder: " + path + ": not a regular file\n");
  }
}

TEST_F(KeeperTest, LeavesAnAdapterWithoutAnswerForAWhile) {
  EXPECT_EQ(run({"in-vain"}), 0);
  EXPECT_EQ(said_, "start\nupgrade\nserved\n");
}

TEST_F(KeeperTest, RefusesALibraryThatDoesNotFit) {
  EXPECT_EQ(run({"upgrade", UNFIT}), 0);
  EXPECT_EQ(said_, "start\norder: it is too old\n");
  said_.clear();
  EXPECT_EQ(run({"upgrade", "/etc/passwd"}), 0);
  EXPECT_THAT(said_, HasSubstr("order: /etc/passwd: "));
}

TEST_F(KeeperTest, RefusesALibraryOfWhichTheTrialDoesNotEnd_AndTakesTheNext) {
  EXPECT_EQ(run({"upgrade-again", STUCK}), 0);
  EXPECT_EQ(said_, "start\norder: its trial does not end: stopped after 10 s\nupgrade\nserved\n");
}

TEST_F(KeeperTest, GoesBackToTheLibraryBeforeIfTheNewOneDoesNotStart) {
  EXPECT_EQ(run({"upgrade", FAILING}), 0);
  EXPECT_THAT(said_, AllOf(HasSubstr("the new adapter does not start (exit code 5)"),
                           EndsWith("rollback\nserved\n")));
}

TEST_F(KeeperTest, EndsATrialWithItself) {
  for (const int signal : {SIGTERM, SIGKILL}) {
    said_.clear();
    start({"end-in-trial", STUCK});
    await("waits");
    ASSERT_EQ(::kill(process_, signal), 0);
    // The trial has the output, too.
    EXPECT_EQ(wait(), signal == SIGTERM ? 3 : 128 + signal) << said_;
  }
}

TEST_F(KeeperTest, ForgetsATrialWhenTheAdapterCrashes) {
  EXPECT_EQ(run({"crash-in-trial", SLOW}), 0);
  EXPECT_THAT(said_, EndsWith("crash\nserved\n"));
}

TEST_F(KeeperTest, EndsTheNextAdapterWhenItIsToldSoDuringAnUpgrade) {
  EXPECT_EQ(run({"end-in-upgrade"}), 3);
  EXPECT_EQ(said_, "start\nupgrade\nserved\nTerminated\n");
  said_.clear();
  EXPECT_EQ(run({"end-in-upgrade", FAILING}), 3);
  EXPECT_THAT(said_, EndsWith("rollback\nserved\nTerminated\n"));
}

TEST_F(KeeperTest, OutlivesAnAdapterThatLies) {
  for (const char* const seed : {"1", "2", "3"}) {
    said_.clear();
    const int code = run({"lie", seed});
    EXPECT_TRUE(code == 128 + SIGKILL) << code << said_;
    EXPECT_THAT(said_, Not(HasSubstr("wrong"))) << said_;
    EXPECT_THAT(said_, Not(HasSubstr("Sanitizer"))) << said_;
  }
}

TEST_F(KeeperTest, NamesWhatTheAdapterCrashedWithTwice) {
  const auto told = [&](const char* how) {
    said_.clear();
    EXPECT_EQ(run({"faults", how}), 0) << how << said_;
    std::vector<std::string> all;
    std::istringstream lines(said_);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("the queue") || line.starts_with("the conn") || line == "nothing")
        all.push_back(line);
    return all;
  };
  const auto after_two = [](const char* what) {
    return testing::ElementsAre("nothing", "nothing", what);
  };
  EXPECT_THAT(told("engine"), after_two("the queue pair"));
  EXPECT_THAT(told("hang"), after_two("the queue pair"));
  EXPECT_THAT(told("control"), after_two("the connection"));
  EXPECT_THAT(told("starting"), after_two("the connection"));
  // The engine works for the control thread, which waits.
  EXPECT_THAT(told("request"), after_two("the connection"));
  EXPECT_THAT(told("differs"), after_two("nothing"));
  EXPECT_THAT(told("elsewhere"), after_two("nothing")) << "a thread without a name of its own";
  EXPECT_THAT(told("outside"), after_two("nothing")) << "killed by another process";
  EXPECT_THAT(told("sent"), after_two("nothing")) << "a signal of another process";
  EXPECT_THAT(told("stop"), after_two("nothing")) << "stopped by another process";
}

TEST_F(KeeperTest, PassesSignalsOn) {
  start({"signals"});
  await("waits");
  ASSERT_EQ(::kill(process_, SIGHUP), 0);
  await("Hangup");
  ASSERT_EQ(::kill(process_, SIGTERM), 0);
  EXPECT_EQ(wait(), 3);
  EXPECT_THAT(said_, EndsWith("Terminated\n"));
}

TEST_F(KeeperTest, TellsTheAdapterWhenItIsKilled) {
  start({"orphan"});
  await("waits");
  ASSERT_EQ(::kill(process_, SIGKILL), 0);
  EXPECT_EQ(wait(), 128 + SIGKILL);
  EXPECT_THAT(said_, EndsWith("the keeper has gone\n"));
}

}  // namespace
